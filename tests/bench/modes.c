// SPDX-License-Identifier: GPL-2.0
/* The modes of the bench program. */
#include "bench.h"

const struct mode *const bench_modes[] = {
	memory_modes, object_modes, arrival_modes, block_modes, churn_modes, page_modes, range_modes, request_modes,
	scan_modes, server_modes, table_modes, NULL
};
