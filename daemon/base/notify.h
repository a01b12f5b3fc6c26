/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The readiness protocol of sd_notify(3), without libsystemd: after notify_open() nothing here
 * allocates or blocks, because the service manager may itself wait for a filesystem on the store.
 */
#ifndef LSMEMD_NOTIFY_H
#define LSMEMD_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

int notify_open(void);
bool notify_managed(void);
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t notify_watchdog_us(void);

#endif
