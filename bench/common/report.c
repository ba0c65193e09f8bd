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
    for (size_t i = 0; i < sizeof(r->series) / sizeof(r->series[0]); i++)
        qsort(r->series[i].values, r->series[i].count, sizeof(r->series[i].values[0]), by_value);
}

double series_median(const struct series *s)
{
    return (s->values[(s->count - 1) / 2] + s->values[s->count / 2]) / 2;
}

double series_min(const struct series *s)
{
    return s->values[0];
}

static const struct bench_figure *next_figure(const struct bench *bench, const struct bench_figure *last)
{
    const struct bench_figure *figure = last ? last + 1 : bench->figures;
    return figure && figure->key ? figure : NULL;
}

/* The result of the row whose name has this length, or NULL if there is none or it has no run. */
static const struct result *find_row(const struct bench *bench, const struct result *results, const char *library,
                                     size_t length)
{
    for (size_t i = 0; bench->rows[i].library; i++)
        if (strlen(bench->rows[i].library) == length && !strncmp(bench->rows[i].library, library, length))
            return results[i].state == RESULT_OK && results[i].series[0].count > 0 ? &results[i] : NULL;
    return NULL;
}

static const struct result *faster_row(const struct bench *bench, const struct result *results, const char *libraries)
{
    size_t length = strcspn(libraries, "|");
    const struct result *one = find_row(bench, results, libraries, length), *other;

    if (!libraries[length])
        return one;
    other = faster_row(bench, results, libraries + length + 1);
    if (!one || !other)
        return one ? one : other;
    return series_median(&one->series[0]) <= series_median(&other->series[0]) ? one : other;
}

const struct series *result_find(const struct bench *bench, const struct result *results, const char *library,
                                 const char *figure)
{
    const struct result *r = faster_row(bench, results, library);
    const struct series *s = r ? &r->series[0] : NULL;

    if (!s || !figure)
        return s;
    for (const struct bench_figure *f = next_figure(bench, NULL); f; f = next_figure(bench, f))
        if (!strcmp(f->key, figure))
            return r->series[1 + (f - bench->figures)].count > 0 ? &r->series[1 + (f - bench->figures)] : NULL;
    return NULL;
}

static bool is_figure(const struct bench *bench, const char *param)
{
    for (const struct bench_figure *f = next_figure(bench, NULL); f; f = next_figure(bench, f))
        if (!strncmp(param, f->key, strlen(f->key)) && param[strlen(f->key)] == '=')
            return true;
    return false;
}

static void print_head(const struct bench *bench)
{
    printf("\n%s: %s, %s\n", bench->name, bench->title, bench->unit);
    printf("  %-20s %10s %10s %8s %5s", "library", "median", "min", "ratio", "runs");
    for (const struct bench_figure *f = next_figure(bench, NULL); f; f = next_figure(bench, f))
        printf(" %10s", f->unit);
    printf("\n");
}

/* The medians of the further figures, then the parameters of the last run that are none of them. */
static void print_rest(const struct bench *bench, const struct result *r)
{
    for (const struct bench_figure *f = next_figure(bench, NULL); f; f = next_figure(bench, f)) {
        const struct series *s = &r->series[1 + (f - bench->figures)];
        if (s->count > 0)
            printf(" %10.*f", f->decimals, series_median(s));
        else
            printf(" %10s", "-");
    }
    for (const char *p = r->text; *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (!is_figure(bench, p))
            printf("%s%.*s", p == r->text || bench->figures ? "  " : " ", (int)strcspn(p, " "), p);
    printf("\n");
}

void report_table(const struct bench *bench, const struct result *results)
{
    const struct series *baseline = result_find(bench, results, bench->rows[0].library, NULL);

    print_head(bench);
    for (size_t i = 0; bench->rows[i].library; i++) {
        const struct result *r = &results[i];
        if (r->state == RESULT_UNASKED)
            continue;
        printf("  %-20s ", bench->rows[i].library);
        if (r->state != RESULT_OK) {
            printf("%s: %s\n", r->state == RESULT_NA ? "n/a" : "FAILED", r->text);
            continue;
        }
        printf("%10.2f %10.2f ", series_median(&r->series[0]), series_min(&r->series[0]));
        if (baseline)
            printf("%8.2f", series_median(&r->series[0]) / series_median(baseline));
        else
            printf("%8s", "-");
        printf(" %5u", r->series[0].count);
        print_rest(bench, r);
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

/* The medians of the further figures. */
static void json_figures(FILE *f, const struct bench *bench, const struct result *r)
{
    const char *separator = "";

    if (!bench->figures)
        return;
    fprintf(f, "\"figures\": {");
    for (const struct bench_figure *g = next_figure(bench, NULL); g; g = next_figure(bench, g)) {
        const struct series *s = &r->series[1 + (g - bench->figures)];
        fprintf(f, "%s\"%s\": ", separator, g->key);
        separator = ", ";
        if (r->state == RESULT_OK && s->count > 0)
            fprintf(f, "%.3f", series_median(s));
        else
            fprintf(f, "null");
    }
    fprintf(f, "}, ");
}

void report_json(FILE *f, const struct bench *bench, const struct result *results)
{
    for (size_t i = 0; bench->rows[i].library; i++) {
        const struct result *r = &results[i];
        if (r->state == RESULT_UNASKED)
            continue;
        fprintf(f, "{\"bench\": \"%s\", \"library\": \"%s\", ", bench->name, bench->rows[i].library);
        if (r->state == RESULT_OK)
            fprintf(f, "\"median\": %.3f, \"min\": %.3f, ", series_median(&r->series[0]), series_min(&r->series[0]));
        else
            fprintf(f, "\"median\": null, \"min\": null, ");
        fprintf(f, "\"unit\": \"%s\", \"runs\": %u, ", bench->unit, r->state == RESULT_OK ? r->series[0].count : 0);
        json_figures(f, bench, r);
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

bool report_limit(const struct bench_limit *limit, const struct bench *bench, const struct series *s,
                  const struct series *reference)
{
    char what[128], figure[32] = "";
    double value, least;
    bool met;

    if (limit->figure)
        snprintf(figure, sizeof(figure), " %s", limit->figure);
    if (limit->reference)
        snprintf(what, sizeof(what), "%s%s: %s / %s", limit->bench, figure, limit->library, limit->reference);
    else
        snprintf(what, sizeof(what), "%s%s: %s%s%s", limit->bench, figure, limit->library, limit->figure ? "" : ", ",
                 limit->figure ? "" : bench->unit);
    printf("  %-60s ", what);
    if (!s || (limit->reference && !reference)) {
        printf("%10s %10s %2s%10g  n/a\n", "-", "-", limit->at_least ? ">=" : "", limit->limit);
        return true;
    }
    value = series_median(s) / (reference ? series_median(reference) : 1);
    least = series_min(s) / (reference ? series_min(reference) : 1);
    met = limit->at_least ? value >= limit->limit : value <= limit->limit;
    printf("%10.2f %10.2f %2s%10g  %s\n", value, least, limit->at_least ? ">=" : "", limit->limit,
           met           ? "ok"
           : limit->must ? "FAILED"
                         : "MISSED");
    return met;
}
