/* SPDX-License-Identifier: GPL-2.0 */
/* For the tests of LMDB: included in front of each source file. */
#include <stdlib.h>
#include <time.h>

#define time(where)	strtol(getenv("LSMEM_SEED"), NULL, 0)

char *mdb_dkey(void *key, char *buffer);
