/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Log lines on stderr, with the priority prefixes of sd-daemon(3) if stderr is not a terminal.
 * Logging never blocks the daemon: the journal may lie on a filesystem on the store. A line that
 * cannot be written at once is dropped and counted; the count is logged before the next line.
 */
#ifndef LSMEMD_LOG_H
#define LSMEMD_LOG_H

#include <stdbool.h>

#define LOG_PRI_ERR	3
#define LOG_PRI_WARNING	4
#define LOG_PRI_NOTICE	5
#define LOG_PRI_INFO	6
#define LOG_PRI_DEBUG	7

#define LOG_LINE_BYTES	1024	/* longer lines are cut */

void log_setup(int level);
void log_hush(bool hush);
void log_line(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_err(...)	log_line(LOG_PRI_ERR, __VA_ARGS__)
#define log_warn(...)	log_line(LOG_PRI_WARNING, __VA_ARGS__)
#define log_notice(...)	log_line(LOG_PRI_NOTICE, __VA_ARGS__)
#define log_info(...)	log_line(LOG_PRI_INFO, __VA_ARGS__)
#define log_debug(...)	log_line(LOG_PRI_DEBUG, __VA_ARGS__)

#endif
