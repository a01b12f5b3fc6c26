/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The readiness protocol of sd_notify(3), without libsystemd: no allocation
 * and no blocking once the socket is open, so that it can be used while the
 * service manager itself waits for a filesystem that waits for us.
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
