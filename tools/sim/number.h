/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers on the command lines of the simulators. */
#ifndef SIM_NUMBER_H
#define SIM_NUMBER_H

double number_parse(const char *text, double least, double most);

#endif
