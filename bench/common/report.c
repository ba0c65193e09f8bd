/*
 * report.c: what the driver prints and writes: the table of a bench, its lines of JSON, the judged limits.
 */
#include "result.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void result_sort(struct result *r)
{
    qsort(r->values, r->runs, sizeof(r->values[0]), by_value);
}

double result_median(const struct result *r)
{
    return (r->values[(r->runs - 1) / 2] + r->values[r->runs / 2]) / 2;
}

double result_min(const struct result *r)
{
    return r->values[0];
}

const struct result *result_find(const struct bench *bench, const struct result *results, const char *library)
{
    for (size_t i = 0; bench->rows[i].library; i++)
        if (!strcmp(bench->rows[i].library, library))
            return results[i].state == RESULT_OK && results[i].runs > 0 ? &results[i] : NULL;
    return NULL;
}

void report_table(const struct bench *bench, const struct result *results)
{
    const struct result *baseline = result_find(bench, results, BENCH_BASELINE);

    printf("\n%s: %s, %s\n", bench->name, bench->title, bench->unit);
    printf("  %-20s %10s %10s %8s %5s\n", "library", "median", "min", "ratio", "runs");
    for (size_t i = 0; bench->rows[i].library; i++) {
        const struct result *r = &results[i];
        printf("  %-20s ", bench->rows[i].library);
        if (r->state != RESULT_OK) {
            printf("%s: %s\n", r->state == RESULT_NA ? "n/a" : "FAILED", r->text);
            continue;
        }
        printf("%10.2f %10.2f ", result_median(r), result_min(r));
        if (baseline)
            printf("%8.2f", result_median(r) / result_median(baseline));
        else
            printf("%8s", "-");
        printf(" %5u%s%s\n", r->runs, r->text[0] ? "  " : "", r->text);
    }
    fflush(stdout);
}

static void json_string(FILE *f, const char *s, size_t length)
{
    putc('"', f);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            putc(c, f);
    }
    putc('"', f);
}

/* "KEY=VALUE ..." as members, a value that is a decimal number without quotes. */
static void json_params(FILE *f, const char *params)
{
    const char *separator = "";

    while (*(params += strspn(params, " "))) {
        size_t length = strcspn(params, " "), key = strcspn(params, "= ");
        const char *value = params + key + (key < length);
        size_t value_length = length - (size_t)(value - params);
        size_t sign = *value == '-', digits = strspn(value + sign, "0123456789"), whole = sign + digits;
        size_t number = whole + (value[whole] == '.' ? 1 + strspn(value + whole + 1, "0123456789") : 0);

        fprintf(f, "%s", separator);
        separator = ", ";
        json_string(f, params, key);
        fprintf(f, ": ");
        if (digits > 0 && number == value_length && value[number - 1] != '.')
            fprintf(f, "%.*s", (int)value_length, value);
        else
            json_string(f, value, value_length);
        params += length;
    }
}

void report_json(FILE *f, const struct bench *bench, const struct result *results)
{
    for (size_t i = 0; bench->rows[i].library; i++) {
        const struct result *r = &results[i];
        fprintf(f, "{\"bench\": \"%s\", \"library\": \"%s\", ", bench->name, bench->rows[i].library);
        if (r->state == RESULT_OK)
            fprintf(f, "\"median\": %.3f, \"min\": %.3f, ", result_median(r), result_min(r));
        else
            fprintf(f, "\"median\": null, \"min\": null, ");
        fprintf(f, "\"unit\": \"%s\", \"runs\": %u, ", bench->unit, r->state == RESULT_OK ? r->runs : 0);
        fprintf(f, "\"params\": {");
        if (r->state == RESULT_OK)
            json_params(f, r->text);
        fprintf(f, "}");
        if (r->state != RESULT_OK) {
            fprintf(f, ", \"%s\": ", r->state == RESULT_NA ? "na" : "failed");
            json_string(f, r->text, strlen(r->text));
        }
        fprintf(f, "}\n");
    }
    fflush(f);
}

void report_limit(const struct bench_limit *limit, const char *unit, const struct result *r,
                  const struct result *reference)
{
    char what[128];
    double value, least;

    if (limit->reference)
        snprintf(what, sizeof(what), "%s: %s / %s", limit->bench, limit->library, limit->reference);
    else
        snprintf(what, sizeof(what), "%s: %s, %s", limit->bench, limit->library, unit);
    printf("  %-48s ", what);
    if (!r || (limit->reference && !reference)) {
        printf("%10s %10s %10g  n/a\n", "-", "-", limit->limit);
        return;
    }
    value = result_median(r) / (reference ? result_median(reference) : 1);
    least = result_min(r) / (reference ? result_min(reference) : 1);
    printf("%10.2f %10.2f %10g  %s\n", value, least, limit->limit, value <= limit->limit ? "ok" : "MISSED");
}
