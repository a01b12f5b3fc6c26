// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemctl: manage stores and backups from the command line.
 *
 * Each command is a struct ctl_command in a file of its own.  A command builds JSON objects and
 * prints them as JSON with --json, as a table without.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

static const struct ctl_command *const commands[] = {
	&ctl_create, &ctl_destroy, &ctl_list, &ctl_stat, &ctl_top, &ctl_clean, &ctl_sync,
	&ctl_scan, &ctl_spread, &ctl_backups, &ctl_move, &ctl_migrate, &ctl_tier, &ctl_pages, &ctl_check, &ctl_format,
};

#define COMMANDS (sizeof(commands) / sizeof(*commands))

static const struct ctl_command *running;
bool ctl_json;

static void vreport(const char *format, va_list args)
{
	fprintf(stderr, "lsmemctl%s%s: ", running ? " " : "", running ? running->name : "");
	vfprintf(stderr, format, args);
}

/**
 * ctl_error - print an error: what failed, where, and what to do about it; or a note
 * @format: as printf(), one line without a newline
 * @...: for @format
 */
void ctl_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vreport(format, args);
	va_end(args);
	fputc('\n', stderr);
}

/**
 * ctl_system_error - print an error, followed by the text of an errno
 * @error: a positive errno
 * @format: as printf(), one line without a newline
 * @...: for @format
 */
void ctl_system_error(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vreport(format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(error));
}

/**
 * ctl_usage_error - print what is wrong with the command line, and a hint at --help
 * @format: as printf(), one line without a newline
 * @...: for @format
 *
 * Return: CTL_USAGE, always.
 */
int ctl_usage_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vreport(format, args);
	va_end(args);
	fprintf(stderr, "\nTry 'lsmemctl%s%s --help'.\n", running ? " " : "",
		running ? running->name : "");
	return CTL_USAGE;
}

static void help(FILE *out)
{
	size_t i;

	fprintf(out, "usage: lsmemctl COMMAND [OPTIONS]\n\ncommands:\n");
	for (i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(out, "\nEvery command takes --json and --help.  See lsmemctl(8).\n");
}

static void command_help(const struct ctl_command *command)
{
	printf("usage: lsmemctl %s\n%s.\n", command->usage, command->summary);
}

/* --help may be anywhere before "--". */
static bool wants_help(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	size_t i;
	int ret;

	if (argc < 2) {
		help(stderr);
		return CTL_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		help(stdout);
		return CTL_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("lsmemctl %s\n", CTL_VERSION);
		return CTL_OK;
	}
	for (i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i]->name))
			continue;
		running = commands[i];
		if (wants_help(argc - 1, argv + 1)) {
			command_help(running);
			return CTL_OK;
		}
		ret = running->run(argc - 1, argv + 1);
		/* A write to standard output can fail late, for example on a full disk. */
		if (fflush(stdout) || ferror(stdout)) {
			ctl_system_error(errno, "standard output");
			return ret ? ret : CTL_FAILED;
		}
		return ret;
	}
	ctl_usage_error("unknown command '%s'", argv[1]);
	return CTL_USAGE;
}
