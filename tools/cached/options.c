// SPDX-License-Identifier: GPL-2.0
/* lsmemcached: command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cached.h"

enum {
	OPTION_STORE = 1000, OPTION_TABLE, OPTION_MODE, OPTION_DURABLE, OPTION_MEMORY, OPTION_IDLE, OPTION_DEBUG_TIME,
	OPTION_SSL_CHAIN_CERT, OPTION_SSL_KEY, OPTION_SSL_CA_CERT,
};

static const struct option longs[] = {
	{ "store", required_argument, NULL, OPTION_STORE },
	{ "table", required_argument, NULL, OPTION_TABLE },
	{ "mode", required_argument, NULL, OPTION_MODE },
	{ "durable", no_argument, NULL, OPTION_DURABLE },
	{ "memory", required_argument, NULL, OPTION_MEMORY },
	{ "port", required_argument, NULL, 'p' },
	{ "udp-port", required_argument, NULL, 'U' },
	{ "listen", required_argument, NULL, 'l' },
	{ "unix-socket", required_argument, NULL, 's' },
	{ "unix-mask", required_argument, NULL, 'a' },
	{ "threads", required_argument, NULL, 't' },
	{ "conn-limit", required_argument, NULL, 'c' },
	{ "listen-backlog", required_argument, NULL, 'b' },
	{ "max-item-size", required_argument, NULL, 'I' },
	{ "idle-timeout", required_argument, NULL, OPTION_IDLE },
	{ "auth-file", required_argument, NULL, 'Y' },
	{ "enable-ssl", no_argument, NULL, 'Z' },
	{ "ssl-chain-cert", required_argument, NULL, OPTION_SSL_CHAIN_CERT },
	{ "ssl-key", required_argument, NULL, OPTION_SSL_KEY },
	{ "ssl-ca-cert", required_argument, NULL, OPTION_SSL_CA_CERT },
	{ "prefix-delimiter", required_argument, NULL, 'D' },
	{ "disable-flush-all", no_argument, NULL, 'F' },
	{ "disable-watch", no_argument, NULL, 'W' },
	{ "enable-shutdown", no_argument, NULL, 'A' },
	{ "pidfile", required_argument, NULL, 'P' },
	{ "debug-time", no_argument, NULL, OPTION_DEBUG_TIME },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 }
};

static const char help[] =
	"usage: lsmemcached [OPTION]...\n"
	"A server for clients of memcached, whose items are in a store of log-structured memory.\n"
	"\n"
	"      --store DEVICE       store for objects (/dev/lsmem)\n"
	"      --table ID           table of the items, 0 to 4095 (1)\n"
	"      --mode cache|store   cache: evict items when the store is full; store: refuse new ones (cache)\n"
	"      --durable            answer changes when they are durable\n"
	"      --memory PERCENT     cache: of the store, that items may take, 1 to 100 (95)\n"
	"  -p, --port PORT          TCP port (11211)\n"
	"  -l, --listen ADDRESS     addresses to listen on, separated by commas (all)\n"
	"  -s, --unix-socket PATH   listen on a unix socket, and not on TCP\n"
	"  -a, --unix-mask MODE     permissions of the unix socket, octal (0700)\n"
	"  -t, --threads N          threads that serve, 1 to 256 (4)\n"
	"  -c, --conn-limit N       most connections at a time (1024)\n"
	"  -b, --listen-backlog N   connections that wait to be accepted (1024)\n"
	"  -I, --max-item-size SIZE largest item, 1k to 1m (1m)\n"
	"  -U, --udp-port 0         accepted: there is no UDP\n"
	"      --idle-timeout N     close connections without commands after N seconds (0: never)\n"
	"  -Y, --auth-file FILE     users that clients authenticate as, lines USER:PASSWORD\n"
	"  -Z, --enable-ssl         speak TLS on TCP\n"
	"      --ssl-chain-cert FILE the server's certificate, and those that lead to its root\n"
	"      --ssl-key FILE       its key (in the same file)\n"
	"      --ssl-ca-cert FILE   clients need a certificate that one of these has signed\n"
	"  -D, --prefix-delimiter C count commands by the part of their keys before C (stats detail)\n"
	"  -F, --disable-flush-all  refuse flush_all\n"
	"  -W, --disable-watch      refuse watch\n"
	"  -A, --enable-shutdown    obey shutdown\n"
	"  -P, --pidfile FILE       write the process id to FILE\n"
	"      --debug-time         obey debugtime, which moves the clock: for tests\n"
	"  -v, --verbose            say more\n"
	"  -h, --help\n"
	"  -V, --version\n";

static int wrong(const char *what, const char *value, const char *wanted)
{
	fprintf(stderr, "lsmemcached: %s %s: give %s\n", what, value, wanted);
	return -1;
}

static bool number(const char *text, uint32_t least, uint32_t most, unsigned int *to)
{
	struct cached_token token = { text, strlen(text) };
	uint32_t value;

	if (!token_u32(&token, &value) || value < least || value > most)
		return false;
	*to = value;
	return true;
}

/* A size with k or m behind it */
static bool size(const char *text, uint32_t least, uint32_t most, unsigned int *to)
{
	struct cached_token token = { text, strlen(text) };
	unsigned int shift = 0;
	uint32_t value;

	if (token.length && strchr("kKmM", text[token.length - 1]))
		shift = strchr("kK", text[--token.length]) ? 10 : 20;
	if (!token_u32(&token, &value) || value > most >> shift || value << shift < least)
		return false;
	*to = value << shift;
	return true;
}

static int parse_one(int option, const char *value, struct cached_options *options)
{
	unsigned int none;
	char *end;

	switch (option) {
	case OPTION_STORE:
		options->store = value;
		return 0;
	case OPTION_TABLE:
		return number(value, 0, 4095, &options->table) ? 0 : wrong("--table", value, "0 to 4095");
	case OPTION_MODE:
		options->keep = !strcmp(value, "store");
		return options->keep || !strcmp(value, "cache") ? 0 : wrong("--mode", value, "cache or store");
	case OPTION_DURABLE:
		options->durable = true;
		return 0;
	case OPTION_MEMORY:
		return number(value, 1, 100, &options->memory) ? 0 : wrong("--memory", value, "a percentage, 1 to 100");
	case 'p':
		return number(value, 1, 65535, &options->port) ? 0 : wrong("-p", value, "a port, 1 to 65535");
	case 'U':
		return number(value, 0, 0, &none) ? 0 : wrong("-U", value, "0: there is no UDP");
	case 'l':
		options->listen = value;
		return 0;
	case 's':
		options->path = value;
		return 0;
	case 'a':
		options->access = (unsigned int)strtoul(value, &end, 8);
		return !*end && *value && options->access <= 0777 ? 0 : wrong("-a", value, "octal permissions, up to 0777");
	case 't':
		return number(value, 1, 256, &options->threads) ? 0 : wrong("-t", value, "1 to 256 threads");
	case 'c':
		return number(value, 1, 1u << 20, &options->connections) ? 0 :
		       wrong("-c", value, "1 to 1048576 connections");
	case 'b':
		return number(value, 1, 65535, &options->backlog) ? 0 : wrong("-b", value, "1 to 65535 connections");
	case 'I':
		return size(value, 1u << 10, CACHED_OBJECT_MAX, &options->item_max) ? 0 :
		       wrong("-I", value, "a size, 1k to 1m");
	case OPTION_IDLE:
		return number(value, 0, 1u << 30, &options->idle) ? 0 : wrong("--idle-timeout", value, "seconds");
	case 'Y':
		options->auth_file = value;
		return 0;
	case 'Z':
		options->ssl = true;
		return 0;
	case OPTION_SSL_CHAIN_CERT:
		options->ssl_chain_cert = value;
		return 0;
	case OPTION_SSL_KEY:
		options->ssl_key = value;
		return 0;
	case OPTION_SSL_CA_CERT:
		options->ssl_ca_cert = value;
		return 0;
	case 'D':
		options->delimiter = *value;
		options->detail = true;
		return strlen(value) == 1 ? 0 : wrong("-D", value, "one character");
	case 'F':
		options->no_flush = true;
		return 0;
	case 'W':
		options->no_watch = true;
		return 0;
	case 'A':
		options->shutdown = true;
		return 0;
	case 'P':
		options->pidfile = value;
		return 0;
	case OPTION_DEBUG_TIME:
		options->debug_time = true;
		return 0;
	case 'v':
		options->verbose++;
		return 0;
	case 'h':
		fputs(help, stdout);
		return 1;
	case 'V':
		puts("lsmemcached " CACHED_VERSION);
		return 1;
	}
	return -1;
}

/**
 * cached_options_parse - parse the command line
 * @argc: of main()
 * @argv: of main()
 * @options: out
 *
 * Return: 0; 1: what was asked for is printed, there is nothing more to do; -1: an error was printed.
 */
int cached_options_parse(int argc, char **argv, struct cached_options *options)
{
	int option, ret = 0;

	*options = (struct cached_options) {
		.table = 1, .access = 0700, .port = 11211, .threads = 4, .connections = 1024, .backlog = 1024,
		.item_max = CACHED_OBJECT_MAX, .memory = 95, .delimiter = ':',
	};
	while (!ret && (option = getopt_long(argc, argv, "p:U:l:s:a:t:c:b:I:Y:ZD:FWAP:vhV", longs, NULL)) >= 0)
		ret = parse_one(option, optarg, options);
	if (!ret && optind < argc) {
		fprintf(stderr, "lsmemcached: %s: no arguments are expected, see --help\n", argv[optind]);
		ret = -1;
	}
	if (!ret && options->ssl != !!options->ssl_chain_cert) {
		fputs("lsmemcached: -Z and --ssl-chain-cert need each other\n", stderr);
		ret = -1;
	}
	if (!ret && options->ssl && options->path) {
		fputs("lsmemcached: -Z and -s: there is no TLS on a unix socket\n", stderr);
		ret = -1;
	}
	return ret;
}
