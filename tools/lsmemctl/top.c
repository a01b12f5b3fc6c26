// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl top: print figures of stores repeatedly, or show them on a full screen.
 *
 * After each interval the program takes a snapshot of all stores and computes the figures from this
 * snapshot and the one before.  No other history is kept.
 */
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "ctl.h"

#define PLAIN_WIDTH	80
#define MESSAGE		128
#define TAB_MAX		16	/* columns of a store's number and name */
#define WAKE_MS		1000	/* longest poll(): a signal of a new window size may come before it */

enum { INTERVAL, COUNT };

static const struct ctl_option options[] = {
	[INTERVAL]	= { "interval", 'i', true },
	[COUNT]		= { "count", 'n', true },
	{ 0 }
};

/**
 * struct top - a run of lsmemctl top
 * @names: names of the stores to watch; NULL: all stores
 * @interval: seconds between snapshots
 * @count: number of intervals until the end; 0: no end
 * @stores: last snapshot
 * @then: time of @stores, by ctl_now()
 * @figures: figures of @stores, in the same order
 * @seconds: interval of the rates in @figures
 * @gone: names of stores that no longer exist and have not been reported
 */
struct top {
	struct json_object *names;
	double interval;
	uint64_t count;

	struct json_object *stores, *figures;
	double then, seconds;
	char gone[MESSAGE];
};

/* Adds the status that the daemon wrote for the last interval; does not wait for a new one. */
static void add_backups(struct json_object *figures, struct json_object *store)
{
	struct json_object *status = NULL;

	if (!strcmp(ctl_word(store, "durability"), "durable"))
		status = ctl_daemon_status(ctl_word(store, "name"), false);
	if (status)
		json_object_object_add(figures, "backups",
				       json_object_get(ctl_find(status, "backups")));
	json_object_put(status);
}

/* A store has no rates if the last snapshot does not have it, or had another of the same name. */
static struct json_object *store_figures(const struct top *top, struct json_object *store)
{
	struct json_object *before, *figures;

	before = ctl_store_before(top->stores, store);
	if (!before)
		figures = ctl_figures(store, store, 0);
	else
		figures = ctl_figures(store, before, top->seconds);
	add_backups(figures, store);
	return figures;
}

static void note_gone(struct top *top, struct json_object *stores)
{
	size_t i, length = strlen(top->gone);

	for (i = 0; top->stores && i < json_object_array_length(top->stores); i++) {
		const char *name = ctl_word(json_object_array_get_idx(top->stores, i), "name");

		if (!ctl_find_row(stores, "name", name) && length < MESSAGE - 1)
			length += (size_t)snprintf(top->gone + length, MESSAGE - length, "%s%s",
						   length ? ", " : "", name);
	}
}

/* Takes a snapshot and computes the figures.  Return: true if there is a store to show. */
static bool sample(struct top *top)
{
	struct json_object *stores = ctl_stores_named(top->names);
	double now = ctl_now();
	size_t i;

	if (!stores)
		return false;
	top->seconds = top->stores ? now - top->then : 0;
	top->then = now;
	note_gone(top, stores);
	json_object_put(top->figures);
	top->figures = json_object_new_array();
	for (i = 0; i < json_object_array_length(stores); i++)
		json_object_array_add(top->figures,
				      store_figures(top, json_object_array_get_idx(stores, i)));
	json_object_put(top->stores);
	top->stores = stores;
	return json_object_array_length(stores);
}

/* ---- Line by line ------------------------------------------------------- */

static void print_line(void *context, bool heading, const char *text)
{
	int length = (int)strlen(text);

	(void)context;
	(void)heading;
	while (length && text[length - 1] == ' ')
		length--;
	printf("%.*s\n", length, text);
}

static void print_text(const struct top *top, bool utf8)
{
	time_t now = time(NULL);
	struct tm local;
	char text[32];
	size_t i;

	localtime_r(&now, &local);
	strftime(text, sizeof(text), "%F %T", &local);
	for (i = 0; i < json_object_array_length(top->figures); i++) {
		printf("%s, %.2f s\n", text, top->seconds);
		ctl_view(json_object_array_get_idx(top->figures, i), PLAIN_WIDTH, utf8,
			 print_line, NULL);
		printf("\n");
	}
}

static int run_lines(struct top *top, bool utf8)
{
	uint64_t shown;
	bool any;

	for (shown = 0; !top->count || shown < top->count; shown++) {
		ctl_pause(top->then + top->interval - ctl_now());
		any = sample(top);
		if (*top->gone)
			ctl_error("%s: went away", top->gone);
		*top->gone = 0;
		if (!any)
			break;
		if (ctl_json)
			ctl_print_interval(top->seconds, top->figures);
		else
			print_text(top, utf8);
		if (fflush(stdout))
			return CTL_FAILED;	/* main() says why */
	}
	return CTL_OK;
}

/* ---- A full screen ------------------------------------------------------ */

/**
 * struct screen - state of the full screen
 * @store: name of the chosen store
 * @paused: take no snapshots
 * @helping: show the help instead of a store
 * @row: row of the next line
 */
struct screen {
	char store[LSMEM_NAME_BYTES];
	bool paused, helping;
	int row;
};

static const char *const help[] = {
	"q                  quit",
	"p                  pause or continue",
	"left, right, tab   another store; 1 .. 9: the store with this number",
	"h, ?               open or close this page",
	"",
	"append        bytes that users write, with headers",
	"write cost    bytes written and copied for each byte that users wrote",
	"wanted        the level of cleaning that the balancer asks for now",
	"compact       level 1: a segment into fewer seglets, in memory only",
	"clean         level 2: segments into new ones, on the backup too",
	"copied/freed  bytes copied for each byte that became free",
	"time %        of one thread; several threads can have more than 100",
	"stalls        waits of writers until space is free",
	"throttles     short waits of writers while space is scarce",
	"p50, p99      half of the waits, 99 % of the waits, were shorter",
	"cold          bytes on the backups only; p99 there: of fetches",
	"",
	"The bars show closed segments by their share of live bytes: of the",
	"memory that they hold, and of the 8 MiB that each takes on a backup.",
	"",
	"Rates are of the last interval.  \"-\" means: not known.",
};

/* Shows a line; each character takes one column, and the end of a long line is cut off. */
static void put_line(void *context, bool heading, const char *text)
{
	struct screen *screen = context;
	wchar_t wide[1024];
	size_t length = mbstowcs(wide, text, sizeof(wide) / sizeof(*wide));

	if (length == (size_t)-1 || screen->row >= LINES - 1)
		return;
	attrset(heading ? A_BOLD : A_NORMAL);
	mvaddnwstr(screen->row++, 0, wide, length < (size_t)COLS ? (int)length : COLS);
	attrset(A_NORMAL);
}

static size_t chosen(const struct top *top, const struct screen *screen)
{
	size_t i;

	for (i = 0; i < json_object_array_length(top->figures); i++) {
		if (!strcmp(ctl_word(json_object_array_get_idx(top->figures, i), "name"),
			    screen->store))
			return i;
	}
	return 0;
}

/* Chooses the store at @place in the snapshot, if there is one. */
static void choose(const struct top *top, struct screen *screen, size_t place)
{
	if (place < json_object_array_length(top->figures))
		snprintf(screen->store, sizeof(screen->store), "%s",
			 ctl_word(json_object_array_get_idx(top->figures, place), "name"));
}

/* Shows the names of the stores; starts late enough that the chosen one, in reverse, is visible. */
static void draw_tabs(const struct top *top, const struct screen *screen)
{
	size_t i, first, place = chosen(top, screen), nr = json_object_array_length(top->figures);
	int used = 0, room = COLS - getcurx(stdscr) - TAB_MAX;

	for (first = place + 1; first; first--) {
		used += (int)strlen(ctl_word(json_object_array_get_idx(top->figures, first - 1),
					 "name")) + 5;
		if (used > room)
			break;
	}
	if (first > place)
		first = place;
	for (i = first; i < nr && getcurx(stdscr) < COLS - TAB_MAX; i++) {
		addstr("  ");
		attrset(i == place ? A_REVERSE : A_NORMAL);
		printw("%zu:%s", i + 1, ctl_word(json_object_array_get_idx(top->figures, i), "name"));
		attrset(A_NORMAL);
	}
}

static void draw(const struct top *top, struct screen *screen, bool utf8)
{
	size_t i;

	erase();
	move(0, 0);
	printw("lsmemctl top, %.2f s%s", top->interval, screen->paused ? ", paused" : "");
	draw_tabs(top, screen);
	screen->row = 1;
	if (screen->helping) {
		for (i = 0; i < sizeof(help) / sizeof(*help); i++)
			put_line(screen, false, help[i]);
	} else {
		ctl_view(json_object_array_get_idx(top->figures, chosen(top, screen)), COLS, utf8,
			 put_line, screen);
	}
	move(LINES - 1, 0);
	if (*top->gone)
		printw("%.*s went away", COLS - 12, top->gone);
	else
		addnstr("q end  h help  p pause  left, right, tab, 1-9 another store", COLS - 1);
	refresh();
}

/* Return: false: quit. */
static bool take_key(const struct top *top, struct screen *screen, int key)
{
	size_t nr = json_object_array_length(top->figures), place = chosen(top, screen);

	switch (key) {
	case 'q':
		return false;
	case 'p':
		screen->paused = !screen->paused;
		break;
	case 'h':
	case '?':
		screen->helping = !screen->helping;
		break;
	case '\t':
	case KEY_RIGHT:
		choose(top, screen, (place + 1) % nr);
		break;
	case KEY_BTAB:
	case KEY_LEFT:
		choose(top, screen, (place + nr - 1) % nr);
		break;
	default:
		if (key >= '1' && key <= '9')
			choose(top, screen, (size_t)(key - '1'));
	}
	return true;
}

/* Waits @seconds for a key, at most WAKE_MS.  Return: false: the terminal has been closed. */
static bool wait_key(double seconds)
{
	struct pollfd terminal = { .fd = STDIN_FILENO, .events = POLLIN };
	int ms = seconds < 0 ? 0 : seconds * 1000 < WAKE_MS ? (int)(seconds * 1000) + 1 : WAKE_MS;

	return poll(&terminal, 1, ms) <= 0 || !(terminal.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Return: false: no store exists any longer. */
static bool run_screen(struct top *top, bool utf8)
{
	struct screen screen = { 0 };
	uint64_t shown = 0;
	int key;

	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	choose(top, &screen, 0);
	for (;;) {
		draw(top, &screen, utf8);
		if (!wait_key(screen.paused ? 1 : top->then + top->interval - ctl_now()))
			return true;
		while ((key = getch()) != ERR) {
			if (!take_key(top, &screen, key))
				return true;
			*top->gone = 0;
		}
		if (screen.paused || ctl_now() < top->then + top->interval)
			continue;
		if (top->count && ++shown > top->count)
			return true;
		if (!sample(top))
			return false;
		choose(top, &screen, chosen(top, &screen));
	}
}

/* Return: an exit code; -1: this terminal cannot show a full screen. */
static int run_terminal(struct top *top, bool utf8)
{
	SCREEN *terminal = newterm(NULL, stdout, stdin);
	bool moves, left = true;

	if (!terminal)
		return -1;
	moves = tigetstr("cup") != NULL;	/* it can move its cursor */
	if (moves)
		left = run_screen(top, utf8);
	endwin();
	delscreen(terminal);
	if (!moves)
		return -1;
	if (!left)
		ctl_error("%s: went away", top->gone);
	return CTL_OK;
}

/* ---- Command line ------------------------------------------------------- */

static int watch(struct top *top)
{
	bool utf8;
	int ret = -1;

	/* Not LC_NUMERIC: JSON needs a decimal point. */
	setlocale(LC_CTYPE, "");
	utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	if (!ctl_module_loaded()) {
		ctl_error("the module is not loaded (modprobe lsmem)");
		return CTL_FAILED;
	}
	if (!sample(top)) {
		ctl_error("there is no store (lsmemctl create makes one)");
		return CTL_FAILED;
	}
	if (!ctl_json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		ret = run_terminal(top, utf8);
	return ret < 0 ? run_lines(top, utf8) : ret;
}

static int run(int argc, char **argv)
{
	struct top top = { .interval = 1 };
	const char *value;
	uint64_t number;
	int option, ret;

	while ((option = ctl_next_option(argc, argv, options, &value)) != -1) {
		if (option < 0)
			return CTL_USAGE;
		if (option == INTERVAL && !ctl_parse_seconds(value, &number))
			return ctl_usage_error("--interval %s: write 1, 0.5 or 250ms", value);
		if (option == INTERVAL)
			top.interval = (double)number / 1000;
		else if (!ctl_parse_number(value, UINT32_MAX, &top.count) || !top.count)
			return ctl_usage_error("--count %s: write a number from 1", value);
	}
	ret = ctl_store_names(argc, argv, &top.names);
	if (!ret)
		ret = watch(&top);
	json_object_put(top.names);
	json_object_put(top.stores);
	json_object_put(top.figures);
	return ret;
}

const struct ctl_command ctl_top = {
	.name = "top",
	.summary = "Show rates and state of stores, updated after each interval",
	.usage = "top [STORE...] [--interval SECONDS] [--count N] [--json]",
	.run = run,
};
