// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl top: format the figures of a store as lines of text.
 *
 * The same lines are printed and shown on a full screen.  Without backups and a tier there are 22 lines.  They
 * need 80 columns; on a wider screen the bars are longer.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"

#define TEXT		32	/* room for one figure, in bytes */
#define TENTHS		10
#define BAR_MIN		4
#define BAR_MAX		100
#define BAR_BYTES	(3 * BAR_MAX + 1)	/* a block character has three bytes in UTF-8 */
#define LINE_BYTES	(2 * BAR_BYTES + 64)
#define LAST_BUCKET_US	((int64_t)1 << 24)	/* bound of the last bucket of stats/stall_histogram */

struct view {
	struct json_object *figures;
	ctl_line_fn line;
	void *context;
};

enum unit { WORD, BYTES, NUMBER, TENTH, HUNDREDTH, BELOW };

/* Formats the upper bound of a bucket, in microseconds; the last bucket has none: "more than". */
static void below_text(int64_t us, char *text)
{
	bool bounded = us < LAST_BUCKET_US;

	*text = bounded ? '<' : '>';
	ctl_time_text((double)(bounded ? us : LAST_BUCKET_US / 2), text + 1, TEXT - 1);
}

/* Formats a figure; "-": not known. */
static const char *figure(struct json_object *figures, const char *key, enum unit unit, char *text)
{
	struct json_object *value = ctl_find(figures, key);

	if (!value) {
		strcpy(text, "-");
		return text;
	}
	switch (unit) {
	case WORD:
		snprintf(text, TEXT, "%s", json_object_get_string(value));
		break;
	case BYTES:
		ctl_bytes_text((uint64_t)json_object_get_double(value), text, TEXT);
		break;
	case NUMBER:
	case TENTH:
	case HUNDREDTH:
		snprintf(text, TEXT, "%.*f", (int)(unit - NUMBER), json_object_get_double(value));
		break;
	case BELOW:
		below_text(json_object_get_int64(value), text);
		break;
	}
	return text;
}

#define FIGURE_OF(figures, key, unit) figure(figures, key, unit, (char[TEXT]) { 0 })
#define FIGURE(view, key, unit) FIGURE_OF((view)->figures, key, unit)

static void line(const struct view *view, bool heading, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void line(const struct view *view, bool heading, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	view->line(view->context, heading, text);
}

static void store_lines(const struct view *view)
{
	line(view, true, "%s: %s, %s, %s", FIGURE(view, "name", WORD), FIGURE(view, "kind", WORD),
	     FIGURE(view, "durability", WORD), FIGURE(view, "state", WORD));
	line(view, false, "capacity %s, live %s (%s %%), free seglets %s of %s",
	     FIGURE(view, "capacity_bytes", BYTES), FIGURE(view, "live_bytes", BYTES),
	     FIGURE(view, "used_percent", TENTH), FIGURE(view, "free_seglets", NUMBER),
	     FIGURE(view, "seglets", NUMBER));
	line(view, false, "append %s/s, %s operations/s, write cost %s",
	     FIGURE(view, "append.bytes_per_second", BYTES),
	     FIGURE(view, "append.operations_per_second", NUMBER),
	     FIGURE(view, "write_cost", HUNDREDTH));
	line(view, false, "balancer %s, wanted: %s, compactors %s",
	     FIGURE(view, "balancer", WORD), FIGURE(view, "level", WORD),
	     FIGURE(view, "nr_compactors", NUMBER));
}

static void level_line(const struct view *view, const char *name)
{
	static const struct {
		const char *key;
		enum unit unit;
	} columns[] = {
		{ "segments_per_second",	TENTH },
		{ "copied_bytes_per_second",	BYTES },
		{ "freed_bytes_per_second",	BYTES },
		{ "copied_per_freed",		HUNDREDTH },
		{ "time_percent",		TENTH },
	};
	char text[128] = "", key[64];
	size_t i, length = 0;

	for (i = 0; i < sizeof(columns) / sizeof(*columns); i++) {
		snprintf(key, sizeof(key), "%s.%s", name, columns[i].key);
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%13s",
					   FIGURE(view, key, columns[i].unit));
	}
	line(view, false, "%-10s%s", name, text);
}

static void wait_lines(const struct view *view)
{
	line(view, true, "%-10s%13s%13s%13s%13s%13s", "waits", "a second", "time %", "p50", "p99",
	     "max");
	line(view, false, "%-10s%13s%13s", "stalls", FIGURE(view, "stalls.per_second", TENTH),
	     FIGURE(view, "stalls.time_percent", TENTH));
	line(view, false, "%-10s%13s%13s", "throttles",
	     FIGURE(view, "throttles.per_second", TENTH),
	     FIGURE(view, "throttles.time_percent", TENTH));
	line(view, false, "%-10s%13s%13s%13s%13s%13s", "both", "", "",
	     FIGURE(view, "waits.p50_us", BELOW), FIGURE(view, "waits.p99_us", BELOW),
	     FIGURE(view, "waits.max_us", BELOW));
}

/*
 * Draws a bar of length @value / @max * @width columns, and fills it with blanks to @width.  The
 * bar of a value that is not 0 is never empty.
 */
static void draw_bar(int64_t value, int64_t max, int width, bool utf8, char *out)
{
	int eighths = max ? (int)((double)value / (double)max * width * 8 + 0.5) : 0;
	int i, full;

	if (value && !eighths)
		eighths = 1;
	full = utf8 ? eighths / 8 : (eighths + 7) / 8;
	for (i = 0; i < full; i++)
		out = stpcpy(out, utf8 ? "\u2588" : "#");
	if (utf8 && eighths % 8) {
		/* U+2589 (seven eighths) .. U+258F (one) */
		*out++ = '\xe2';
		*out++ = '\x96';
		*out++ = (char)(0x90 - eighths % 8);
		i++;
	}
	for (; i < width; i++)
		*out++ = ' ';
	*out = 0;
}

static int64_t tenth(struct json_object *tenths, size_t i)
{
	return json_object_get_int64(json_object_array_get_idx(tenths, i));
}

static struct json_object *find_tenths(const struct view *view, const char *key)
{
	struct json_object *tenths = ctl_find(view->figures, key);

	if (!json_object_is_type(tenths, json_type_array) ||
	    json_object_array_length(tenths) != TENTHS)
		return NULL;
	return tenths;
}

/* Bars of closed segments by their live share: of memory and of the backup, on the same scale. */
static void picture(const struct view *view, int width, bool utf8)
{
	struct json_object *tenths[] = {
		find_tenths(view, "segments_by_memory"),
		find_tenths(view, "segments_by_backup"),
	};
	int room = (width - 8 - 2 * 9) / 2;
	int64_t max = 0;
	size_t i, side;

	if (room < BAR_MIN)
		room = BAR_MIN;
	if (room > BAR_MAX)
		room = BAR_MAX;
	for (side = 0; side < 2; side++) {
		for (i = 0; tenths[side] && i < TENTHS; i++) {
			if (tenth(tenths[side], i) > max)
				max = tenth(tenths[side], i);
		}
	}
	line(view, true, "%-9s%-*s%s", "live %", room + 9, "segments, of their memory",
	     "of their room on a backup");
	for (i = 0; i < TENTHS; i++) {
		char bars[2][BAR_BYTES], counts[2][TEXT];

		for (side = 0; side < 2; side++) {
			int64_t value = tenths[side] ? tenth(tenths[side], i) : 0;

			draw_bar(value, max, room, utf8, bars[side]);
			snprintf(counts[side], TEXT, "%" PRId64, value);
			if (!tenths[side])
				strcpy(counts[side], "-");
		}
		line(view, false, "%3zu-%-4zu %s %-7s %s %s", 10 * i, 10 * i + 10, bars[0],
		     counts[0], bars[1], counts[1]);
	}
}

/* The tier, if the store has one. */
static void tier_lines(const struct view *view)
{
	if (!ctl_find(view->figures, "tier"))
		return;
	line(view, true, "%-10s%13s%13s%13s%13s%13s", "tier", "resident", "cold", "fetches/s",
	     "evicted/s", "p99");
	line(view, false, "%-10s%13s%13s%13s%13s%13s", "", FIGURE(view, "tier.resident_bytes", BYTES),
	     FIGURE(view, "tier.cold_bytes", BYTES), FIGURE(view, "tier.fetches_per_second", TENTH),
	     FIGURE(view, "tier.evicted_bytes_per_second", BYTES), FIGURE(view, "tier.p99_us", BELOW));
}

/* The backups of a durable store, if the daemon has written its status. */
static void backup_lines(const struct view *view)
{
	struct json_object *backups = ctl_find(view->figures, "backups");
	size_t i;

	for (i = 0; backups && i < json_object_array_length(backups); i++) {
		struct json_object *backup = json_object_array_get_idx(backups, i);
		const char *name = FIGURE_OF(backup, "name", WORD);

		if (!i)
			line(view, true, "%-16s%-9s%13s%13s%13s%13s", "backup", "", "segments",
			     "free", "lag", "requests");
		line(view, false, "%-16s%-9s%13s%13s%13s%13s", *name ? name : "(only one)",
		     FIGURE_OF(backup, "state", WORD), FIGURE_OF(backup, "frames", NUMBER),
		     FIGURE_OF(backup, "frames_free", NUMBER), FIGURE_OF(backup, "lag_bytes", BYTES),
		     FIGURE_OF(backup, "in_flight", NUMBER));
	}
}

/**
 * ctl_view() - format the figures of a store as lines of text
 * @figures: of ctl_figures()
 * @width: columns of the output
 * @utf8: draw the bars with block characters of UTF-8
 * @line_fn: called for each line; its argument heading is true for headings
 * @context: argument of @line_fn
 */
void ctl_view(struct json_object *figures, int width, bool utf8, ctl_line_fn line_fn,
	      void *context)
{
	const struct view view = { .figures = figures, .line = line_fn, .context = context };

	store_lines(&view);
	line(&view, true, "%-10s%13s%13s%13s%13s%13s", "cleaning", "segments/s", "copied/s",
	     "freed/s", "copied/freed", "time %");
	level_line(&view, "compact");
	level_line(&view, "clean");
	wait_lines(&view);
	tier_lines(&view);
	backup_lines(&view);
	picture(&view, width, utf8);
}
