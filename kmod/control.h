/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/lsmem-control.  See control.c. */
#ifndef LSMEM_CONTROL_H
#define LSMEM_CONTROL_H

int lsmem_control_init(void);
void lsmem_control_exit(void);

#endif
