/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/lsmem-control: create and destroy stores, attach a daemon.  See control.c.  The decisions
 * are made below: lsmem_store_create() and lsmem_store_destroy() in store.c, lsmem_repl_attach() in
 * repl.c.  User space calls through a miscdevice and needs CAP_SYS_ADMIN; main.c adds the device.
 */
#ifndef LSMEM_CONTROL_H
#define LSMEM_CONTROL_H

int lsmem_control_init(void);
void lsmem_control_exit(void);

#endif
