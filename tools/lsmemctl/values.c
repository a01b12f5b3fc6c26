// SPDX-License-Identifier: GPL-2.0
/* lsmemctl: columns and values of objects, on the command line and in results. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lsmem/lsmem_format.h>

#include "objects.h"

/**
 * ctl_parse_column() - parse TYPE@OFFSET
 * @text: from the command line
 * @many: an x and a number of values, or x*, may follow
 * @column: out
 * @end: out: what follows in @text
 *
 * Return: false if @text does not begin with a column.
 */
bool ctl_parse_column(const char *text, bool many, struct lsm_column *column, const char **end)
{
	static const char *const types[] = { NULL, "u32@", "u64@", "i64@", "f64@" };
	unsigned long long number;
	uint32_t type;
	char *rest;

	for (type = LSM_U32; type <= LSM_F64; type++)
		if (!strncmp(text, types[type], 4))
			break;
	if (type > LSM_F64 || text[4] < '0' || text[4] > '9')
		return false;
	number = strtoull(text + 4, &rest, 10);
	if (number >= LSMEM_OBJECT_MAX)
		return false;
	*column = (struct lsm_column){ .type = type, .offset = (uint32_t)number };
	if (many && *rest == 'x') {
		if (rest[1] == '*') {
			column->nr = LSM_TO_END;
			rest += 2;
		} else {
			number = strtoull(rest + 1, &rest, 10);
			if (!number || number >= LSMEM_OBJECT_MAX)
				return false;
			column->nr = (uint32_t)number;
		}
	}
	*end = rest;
	return true;
}

/**
 * ctl_parse_value() - parse a value of a column
 * @type: enum lsm_type
 * @text: from the command line
 * @value: out; not NaN
 *
 * Return: false if @text is not a number of the type.
 */
bool ctl_parse_value(uint32_t type, const char *text, union lsm_value *value)
{
	char *end;

	errno = 0;
	if (type == LSM_F64)
		value->f64 = strtod(text, &end);
	else if (type == LSM_I64)
		value->i64 = strtoll(text, &end, 10);
	else
		value->u64 = strtoull(text, &end, 10);
	/* A number that is too small for a double is one: the nearest. */
	if (end == text || *end || (errno && type != LSM_F64))
		return false;
	if (type == LSM_F64)
		return !isnan(value->f64);
	return *text != '-' || type == LSM_I64 ? type != LSM_U32 || value->u64 <= UINT32_MAX : false;
}

/* Steps to the next value of the type, upwards or downwards.  False: there is none. */
static bool step(uint32_t type, bool up, union lsm_value *value)
{
	uint64_t last = type == LSM_U32 ? UINT32_MAX : UINT64_MAX;

	switch (type) {
	case LSM_F64:
		value->f64 = nextafter(value->f64, up ? (double)INFINITY : -(double)INFINITY);
		return true;
	case LSM_I64:
		if (value->i64 == (up ? INT64_MAX : INT64_MIN))
			return false;
		value->i64 += up ? 1 : -1;
		return true;
	default:
		if (value->u64 == (up ? last : 0))
			return false;
		value->u64 += up ? 1 : UINT64_MAX;
		return true;
	}
}

/**
 * ctl_parse_where() - parse COLUMN<VALUE, <=, >, >= or =
 * @text: from the command line
 * @range: out
 *
 * Return: false if @text is not a condition.
 */
bool ctl_parse_where(const char *text, struct lsm_range *range)
{
	union lsm_value value;
	const char *rest;
	bool below, above, equal;
	uint32_t type;

	if (!ctl_parse_column(text, false, &range->column, &rest))
		return false;
	type = range->column.type;
	below = *rest == '<';
	above = *rest == '>';
	rest += below || above;
	equal = *rest == '=';
	rest += equal;
	if ((!below && !above && !equal) || !ctl_parse_value(type, rest, &value))
		return false;
	range->low.u64 = 0;
	range->high.u64 = type == LSM_U32 ? UINT32_MAX : UINT64_MAX;
	if (type == LSM_I64) {
		range->low.i64 = INT64_MIN;
		range->high.i64 = INT64_MAX;
	} else if (type == LSM_F64) {
		range->low.f64 = -(double)INFINITY;
		range->high.f64 = (double)INFINITY;
	}
	if (!below)
		range->low = value;
	if (!above)
		range->high = value;
	/* Without a value below or above there is nothing in the range: turn it round. */
	if ((below && !equal && !step(type, false, &range->high)) ||
	    (above && !equal && !step(type, true, &range->low)) ||
	    (type == LSM_F64 && !equal && isinf(value.f64) && below == (value.f64 < 0))) {
		range->low = value;
		range->high = value;
		step(type, below, &range->low);
		step(type, !below && !above, &range->high);
	}
	return true;
}

/**
 * ctl_value_decimal() - a double with all its digits
 * @value: double
 *
 * Return: number for JSON; NULL: there is none for infinity and NaN.
 */
struct json_object *ctl_value_decimal(double value)
{
	char text[32];

	if (!isfinite(value))
		return NULL;
	snprintf(text, sizeof(text), "%.17g", value);
	return json_object_new_double_s(value, text);
}

/**
 * ctl_value_json() - a value of a column
 * @type: enum lsm_type
 * @value: of the type
 *
 * Return: number for JSON; NULL: there is none for infinity and NaN.
 */
struct json_object *ctl_value_json(uint32_t type, union lsm_value value)
{
	if (type == LSM_F64)
		return ctl_value_decimal(value.f64);
	return type == LSM_I64 ? json_object_new_int64(value.i64) : json_object_new_uint64(value.u64);
}
