// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <error.h>
#include <stdlib.h>

#include "number.h"

/**
 * number_parse - read a number; end the program with a message if it is none, or out of bounds
 * @text: of the command line
 * @least: lowest number that is allowed
 * @most: highest number that is allowed
 * Return: the number.
 */
double number_parse(const char *text, double least, double most)
{
	char *end;
	double value;

	errno = 0;
	value = strtod(text, &end);
	if (errno || end == text || *end || !(value >= least && value <= most))
		error(2, 0, "%s: not a number from %g to %g", text, least, most);
	return value;
}
