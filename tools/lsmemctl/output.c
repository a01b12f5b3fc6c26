// SPDX-License-Identifier: GPL-2.0
/* lsmemctl: print JSON objects as JSON or as tables. */
#include <errno.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"

/**
 * ctl_print_json - print an object as JSON
 * @object: to print
 *
 * Return: CTL_OK, always.
 */
int ctl_print_json(struct json_object *object)
{
	printf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
						      JSON_C_TO_STRING_SPACED |
						      JSON_C_TO_STRING_NOSLASHESCAPE));
	return CTL_OK;
}

/**
 * ctl_print_interval() - print figures of an interval as a line of JSON
 * @seconds: length of the interval
 * @stores: array with the figures of each store
 */
void ctl_print_interval(double seconds, struct json_object *stores)
{
	struct json_object *out = json_object_new_object();
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	ctl_add_decimal(out, "time", (double)now.tv_sec + (double)now.tv_nsec / 1e9);
	ctl_add_decimal(out, "seconds", seconds);
	json_object_object_add(out, "stores", json_object_get(stores));
	printf("%s\n", json_object_to_json_string_ext(out, JSON_C_TO_STRING_PLAIN |
						      JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(out);
}

/**
 * ctl_find - find a value by its key
 * @object: to search
 * @key: "key", or "group.key" for a value in an object that is a value of @object
 *
 * Return: the value, with no reference for the caller; NULL: not there.
 */
struct json_object *ctl_find(struct json_object *object, const char *key)
{
	const char *dot = strchr(key, '.');
	struct json_object *value = NULL;
	char group[64];

	if (!dot)
		return json_object_object_get_ex(object, key, &value) ? value : NULL;
	snprintf(group, sizeof(group), "%.*s", (int)(dot - key), key);
	if (!json_object_object_get_ex(object, group, &value))
		return NULL;
	return ctl_find(value, dot + 1);
}

/**
 * ctl_number - find a number by its key
 * @object: to search
 * @key: as for ctl_find()
 *
 * Return: the number; 0: not there.
 */
int64_t ctl_number(struct json_object *object, const char *key)
{
	return json_object_get_int64(ctl_find(object, key));
}

/**
 * ctl_word - find a string by its key
 * @object: to search
 * @key: as for ctl_find()
 *
 * Return: the string, valid as long as the value; "": not there.
 */
const char *ctl_word(struct json_object *object, const char *key)
{
	struct json_object *value = ctl_find(object, key);

	return value ? json_object_get_string(value) : "";
}

/**
 * ctl_find_row - find an object in an array by a string in it
 * @rows: the array; NULL: none
 * @key: as for ctl_find()
 * @word: wanted value of @key
 *
 * Return: the first such object, with no reference for the caller; NULL: none.
 */
struct json_object *ctl_find_row(struct json_object *rows, const char *key, const char *word)
{
	size_t i;

	for (i = 0; rows && i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);

		if (!strcmp(ctl_word(row, key), word))
			return row;
	}
	return NULL;
}

/**
 * ctl_add_number - add an integer to an object
 * @object: gets the number
 * @key: its key
 * @number: the number
 */
void ctl_add_number(struct json_object *object, const char *key, int64_t number)
{
	json_object_object_add(object, key, json_object_new_int64(number));
}

/**
 * ctl_add_decimal - add a number with three decimals to an object
 * @object: gets the number
 * @key: its key
 * @number: the number
 */
void ctl_add_decimal(struct json_object *object, const char *key, double number)
{
	char text[32];

	snprintf(text, sizeof(text), "%.3f", number);
	json_object_object_add(object, key, json_object_new_double_s(number, text));
}

/**
 * ctl_bytes_text - format a size for people: 0, 512, 4K, 1.5G
 * @bytes: the size
 * @text: out
 * @size: of @text, in bytes
 *
 * Return: @text.
 */
char *ctl_bytes_text(uint64_t bytes, char *text, size_t size)
{
	static const char units[] = "\0KMGTPE";
	unsigned int unit = 0;
	double value = (double)bytes;

	while (value >= 1024 && unit < sizeof(units) - 2) {
		value /= 1024;
		unit++;
	}
	snprintf(text, size, unit && value < 100 && value != (double)(uint64_t)value ?
		 "%.1f%.1s" : "%.0f%.1s", value, &units[unit]);
	return text;
}

/**
 * ctl_time_text - format a time for people: 64us, 1.5ms, 20ms, 8.4s
 * @us: the time, in microseconds
 * @text: out
 * @size: of @text, in bytes
 *
 * Return: @text.
 */
char *ctl_time_text(double us, char *text, size_t size)
{
	if (us < 1000)
		snprintf(text, size, "%.0fus", us);
	else if (us < 1e6)
		snprintf(text, size, "%.*fms", us < 1e4, us / 1e3);
	else
		snprintf(text, size, "%.1fs", us / 1e6);
	return text;
}

/* Formats an array of numbers as "1 2 3". */
static void numbers_text(struct json_object *numbers, char *text, size_t size)
{
	size_t i, length = 0;

	*text = 0;
	for (i = 0; i < json_object_array_length(numbers) && length < size; i++)
		length += (size_t)snprintf(text + length, size - length, "%s%s", i ? " " : "",
					   json_object_get_string(
						   json_object_array_get_idx(numbers, i)));
}

static char *value_text(struct json_object *value, enum ctl_format_kind kind, char *text,
			size_t size)
{
	if (!value) {
		snprintf(text, size, "-");
		return text;
	}
	switch (kind) {
	case CTL_BYTES:
		return ctl_bytes_text((uint64_t)json_object_get_int64(value), text, size);
	case CTL_MICROSECONDS:
		return ctl_time_text(json_object_get_double(value), text, size);
	case CTL_DECIMAL:
		snprintf(text, size, "%.1f", json_object_get_double(value));
		return text;
	case CTL_YES:
		snprintf(text, size, "%s", json_object_get_boolean(value) ? "yes" : "no");
		return text;
	case CTL_NUMBERS:
		numbers_text(value, text, size);
		return text;
	default:
		snprintf(text, size, "%s", json_object_get_string(value));
		return text;
	}
}

static int out_of_memory(void)
{
	ctl_system_error(ENOMEM, "table");
	return CTL_FAILED;
}

/**
 * ctl_print_table() - print an array of objects as a table with one line for each
 * @rows: JSON array
 * @columns: columns of the table
 * @nr: number of columns
 *
 * Return: an exit code.
 */
int ctl_print_table(struct json_object *rows, const struct ctl_column *columns, size_t nr)
{
	struct libscols_table *table = scols_new_table();
	struct libscols_line *line;
	int ret = CTL_FAILED;
	char text[256];
	size_t i, j;

	if (!table)
		return out_of_memory();
	for (j = 0; j < nr; j++) {
		if (!scols_table_new_column(table, columns[j].title, 0,
					    columns[j].kind == CTL_TEXT ||
					    columns[j].kind == CTL_YES ? 0 : SCOLS_FL_RIGHT))
			goto out;
	}
	for (i = 0; i < json_object_array_length(rows); i++) {
		line = scols_table_new_line(table, NULL);
		if (!line)
			goto out;
		for (j = 0; j < nr; j++) {
			struct json_object *row = json_object_array_get_idx(rows, i);

			value_text(ctl_find(row, columns[j].key), columns[j].kind, text,
				   sizeof(text));
			if (scols_line_set_data(line, j, text))
				goto out;
		}
	}
	if (!scols_print_table(table))
		ret = CTL_OK;
out:
	if (ret)
		out_of_memory();
	scols_unref_table(table);
	return ret;
}

/* How to print a value: attributes have names that end with their unit. */
static enum ctl_format_kind kind_of(const char *key, struct json_object *value)
{
	size_t length = strlen(key);

	if (json_object_is_type(value, json_type_double))
		return length > 8 && !strcmp(key + length - 8, "_percent") ? CTL_DECIMAL : CTL_TEXT;
	if (json_object_is_type(value, json_type_boolean))
		return CTL_YES;
	if (json_object_is_type(value, json_type_array))
		return CTL_NUMBERS;
	if (json_object_is_type(value, json_type_int) && length > 6 &&
	    !strcmp(key + length - 6, "_bytes"))
		return CTL_BYTES;
	return CTL_TEXT;
}

/* Is @value an array of anything but numbers? */
static bool is_list(struct json_object *value)
{
	return json_object_is_type(value, json_type_array) && json_object_array_length(value) &&
	       !json_object_is_type(json_object_array_get_idx(value, 0), json_type_int);
}

static bool add_fields(struct libscols_table *table, struct json_object *object,
		       const char *group)
{
	char name[128], text[512];

	json_object_object_foreach(object, key, value) {
		struct libscols_line *line;

		snprintf(name, sizeof(name), "%s%s%s", group, *group ? "." : "", key);
		if (json_object_is_type(value, json_type_object)) {
			if (!add_fields(table, value, name))
				return false;
			continue;
		}
		if (is_list(value))
			continue;
		line = scols_table_new_line(table, NULL);
		if (!line || scols_line_set_data(line, 0, name) ||
		    scols_line_set_data(line, 1, value_text(value, kind_of(key, value), text,
							    sizeof(text))))
			return false;
	}
	return true;
}

/**
 * ctl_print_fields() - print an object with one line for each field
 * @object: to print; a field of a group is printed as group.key, an array of objects is left out
 *
 * Return: an exit code.
 */
int ctl_print_fields(struct json_object *object)
{
	struct libscols_table *table = scols_new_table();
	int ret = CTL_FAILED;

	if (!table)
		return out_of_memory();
	scols_table_enable_noheadings(table, 1);
	if (scols_table_new_column(table, "FIELD", 0, 0) &&
	    scols_table_new_column(table, "VALUE", 0, 0) &&
	    add_fields(table, object, "") && !scols_print_table(table))
		ret = CTL_OK;
	if (ret)
		out_of_memory();
	scols_unref_table(table);
	return ret;
}
