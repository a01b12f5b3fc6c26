// SPDX-License-Identifier: GPL-2.0
/* The one place where the tracepoints are made.  See trace.h. */
#define CREATE_TRACE_POINTS
#include "trace.h"
