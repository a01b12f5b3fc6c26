/* SPDX-License-Identifier: GPL-2.0 */
/* lsmemctl: declarations that its commands share. */
#ifndef LSMEMCTL_CTL_H
#define LSMEMCTL_CTL_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lsmem/lsmem.h>

#define CTL_VERSION	"0.1.0"

/* Exit codes, documented in lsmemctl(8). */
enum ctl_exit {
	CTL_OK		= 0,
	CTL_FAILED	= 1,	/* the system refused */
	CTL_USAGE	= 2,	/* the command line is wrong */
	CTL_DAMAGED	= 3,	/* check: the backup is damaged */
};

/**
 * struct ctl_command - a command of lsmemctl
 * @name: name on the command line
 * @summary: one line without a full stop, for --help
 * @usage: arguments and options, without the name of the program, for --help
 * @run: runs the command; returns enum ctl_exit
 */
struct ctl_command {
	const char *name;
	const char *summary;
	const char *usage;
	int (*run)(int argc, char **argv);
};

extern const struct ctl_command ctl_create, ctl_destroy, ctl_list, ctl_stat, ctl_sync, ctl_check,
	ctl_format, ctl_top, ctl_clean, ctl_backups, ctl_tier, ctl_pages, ctl_scan, ctl_spread, ctl_move,
	ctl_migrate;

/* main.c */
extern bool ctl_json;
void ctl_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ctl_system_error(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
int ctl_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* args.c */

/**
 * struct ctl_option - an option of a command
 * @name: name of the long option, without --
 * @letter: short option; 0: none
 * @has_value: a value follows the option
 */
struct ctl_option {
	const char *name;
	char letter;
	bool has_value;
};

int ctl_next_option(int argc, char **argv, const struct ctl_option *options, const char **value);
const char *ctl_one_argument(int argc, char **argv, const char *what);
bool ctl_parse_size(const char *text, uint64_t *bytes);
bool ctl_parse_number(const char *text, uint64_t max, uint64_t *number);
bool ctl_parse_mode(const char *text, uint32_t *mode);
bool ctl_parse_seconds(const char *text, uint64_t *milliseconds);
bool ctl_parse_kind(const char *text, uint32_t *kind);

/* store.c */
struct json_object *ctl_store_read(const char *name);
struct json_object *ctl_stores_read(void);
struct json_object *ctl_stores_named(struct json_object *names);
struct json_object *ctl_store_before(struct json_object *before, struct json_object *store);
int ctl_store_names(int argc, char **argv, struct json_object **names);
bool ctl_store_name(const char *text, char *name);
bool ctl_module_loaded(void);
bool ctl_store_exists(const char *name);
int ctl_open_attribute(const char *name, const char *attribute, int flags);
int ctl_open_control(void);
int ctl_open_store(const char *name, int flags);

/* daemon.c */
#define CTL_RUN		"/run/lsmem"	/* has the status files */

struct json_object *ctl_daemon_read(const char *file);
int ctl_daemon_signal(struct json_object *status, int number);
struct json_object *ctl_daemon_file(const char *file, bool wait);
struct json_object *ctl_daemon_status(const char *name, bool wait);

/* moves.c */
struct json_object *ctl_moves_read(const char *text, bool *failed);
const char *ctl_moves_name(struct json_object *status);
struct json_object *ctl_moves_running(const char *text);
struct json_object *ctl_moves_of(struct json_object *before);
int ctl_moves_ask(struct json_object *before, int number, const char *what, struct json_object **after);

/* clock.c */
double ctl_now(void);
void ctl_pause(double seconds);

/* figures.c */
struct json_object *ctl_cleaning(struct json_object *store);
struct json_object *ctl_figures(struct json_object *now, struct json_object *before,
				double seconds);
struct json_object *ctl_tier_figures(struct json_object *now, struct json_object *before,
				     double seconds);
struct json_object *ctl_pages_figures(struct json_object *now, struct json_object *before,
				      double seconds);

/* view.c */
typedef void (*ctl_line_fn)(void *context, bool heading, const char *text);
void ctl_view(struct json_object *figures, int width, bool utf8, ctl_line_fn line_fn,
	      void *context);

/* output.c */
enum ctl_format_kind {
	CTL_TEXT,
	CTL_NUMBER,	/* aligned to the right */
	CTL_BYTES,	/* printed as 1.5G */
	CTL_MICROSECONDS,	/* printed as 1.5ms */
	CTL_DECIMAL,	/* printed with one digit after the point */
	CTL_YES,	/* a boolean, printed as yes or no */
	CTL_NUMBERS,	/* an array of integers */
};

/**
 * struct ctl_column - a column of a table
 * @title: heading
 * @key: key of the value in the JSON object of a row, as ctl_find() takes it
 * @kind: how the value is printed
 */
struct ctl_column {
	const char *title;
	const char *key;
	enum ctl_format_kind kind;
};

int ctl_print_json(struct json_object *object);
void ctl_print_interval(double seconds, struct json_object *stores);
int ctl_print_table(struct json_object *rows, const struct ctl_column *columns, size_t nr);
int ctl_print_fields(struct json_object *object);
struct json_object *ctl_find(struct json_object *object, const char *key);
int64_t ctl_number(struct json_object *object, const char *key);
const char *ctl_word(struct json_object *object, const char *key);
struct json_object *ctl_find_row(struct json_object *rows, const char *key, const char *word);
void ctl_add_number(struct json_object *object, const char *key, int64_t number);
void ctl_add_decimal(struct json_object *object, const char *key, double number);
char *ctl_bytes_text(uint64_t bytes, char *text, size_t size);
char *ctl_time_text(double us, char *text, size_t size);

/* watch.c */

/**
 * struct ctl_watched - figures that some stores have
 * @key: of a file of sysfs that only these stores have
 * @kind: word for such a store
 * @without: what is said of a store without them
 * @figures: computes them from two snapshots; NULL: this store has none
 * @totals: columns without an interval
 * @nr_totals: how many
 * @rates: columns of an interval
 * @nr_rates: how many
 */
struct ctl_watched {
	const char *key, *kind, *without;
	struct json_object *(*figures)(struct json_object *now, struct json_object *before,
				       double seconds);
	const struct ctl_column *totals;
	size_t nr_totals;
	const struct ctl_column *rates;
	size_t nr_rates;
};

int ctl_watch(int argc, char **argv, const struct ctl_watched *what);

#endif
