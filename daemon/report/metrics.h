/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Metrics for Prometheus, in its text format: the status (status.h), and the store's attributes in
 * sysfs, which are read for each request. Documentation/admin-guide.rst lists the metrics.
 */
#ifndef LSMEMD_METRICS_H
#define LSMEMD_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "status.h"

#define METRICS_TYPE	"text/plain; version=0.0.4; charset=utf-8"

void metrics_write(FILE *out, const struct status *status, uint64_t age_ns);

#endif
