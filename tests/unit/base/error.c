/*
 * weft_strerror: every code that a public header names has a text of weft's own.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/api.h>

#include "support/test.h"

enum { HIGHEST = 4095 };

/* The number of "ENXIO"; 0: there is no such name. */
static int number_of(const char *name)
{
    for (int n = 1; n <= HIGHEST; n++) {
        if (strerrorname_np(n) && strcmp(strerrorname_np(n), name) == 0)
            return n;
    }
    return 0;
}

/* Marks each code that the header names. */
static void note_codes(const char *path, bool *named)
{
    char line[4096], name[32];
    FILE *f = fopen(path, "re");
    REQUIRE(f != NULL);
    while (fgets(line, sizeof line, f)) {
        for (const char *at = line; (at = strstr(at, "-E")) != NULL; at++) {
            size_t n = 1;
            while (n < sizeof name && (isupper((unsigned char)at[n]) || isdigit((unsigned char)at[n])))
                n++;
            snprintf(name, sizeof name, "%.*s", (int)n - 1, at + 1);
            int number = number_of(name);
            if (number == 0 && n > 2)
                test_failed(path, 0, "%s is no code of the system", name);
            named[number] = true;
        }
    }
    fclose(f);
}

TEST(every_code_that_a_header_names_has_a_text_of_its_own)
{
    static bool named[HIGHEST + 1];
    int count = 0;
    DIR *headers = opendir(HEADERS);
    REQUIRE(headers != NULL);
    for (struct dirent *e; (e = readdir(headers)) != NULL;) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", HEADERS, e->d_name);
        if (strstr(e->d_name, ".h"))
            note_codes(path, named);
    }
    closedir(headers);
    for (int n = 1; n <= HIGHEST; n++) {
        if (!named[n])
            continue;
        count++;
        if (strcmp(weft_strerror(-n), strerrordesc_np(n)) == 0)
            test_failed(__FILE__, __LINE__, "%s has only the system's text", strerrorname_np(n));
        for (int m = 1; m < n; m++) {
            if (named[m] && strcmp(weft_strerror(-n), weft_strerror(-m)) == 0)
                test_failed(__FILE__, __LINE__, "%s and %s have one text", strerrorname_np(n), strerrorname_np(m));
        }
    }
    CHECK_INT(count, >=, 20);
}

TEST(the_sign_does_not_matter)
{
    for (int n = 0; n <= HIGHEST; n++)
        CHECK_STR(weft_strerror(-n), weft_strerror(n));
    CHECK(strstr(weft_strerror(-ENXIO), "no runtime: call weft_run") != NULL);
    CHECK_STR(weft_strerror(0), "success");
}

TEST(other_codes_have_the_text_of_the_system)
{
    CHECK_STR(weft_strerror(-EXDEV), strerrordesc_np(EXDEV));
    CHECK_STR(weft_strerror(-ENOTSOCK), strerrordesc_np(ENOTSOCK));
}

TEST(what_is_no_code_is_said_to_be_none)
{
    const int none[] = {41, 4095, 4096, INT_MAX, INT_MIN, INT_MIN + 1};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        CHECK_STR(weft_strerror(none[i]), "no code of weft or of the system");
}

TEST(errno_is_left_alone)
{
    errno = EDOM;
    weft_strerror(-ENXIO);
    weft_strerror(-ECONNRESET);
    weft_strerror(INT_MIN);
    CHECK_INT(errno, ==, EDOM);
}

TESTS(base_error, every_code_that_a_header_names_has_a_text_of_its_own, the_sign_does_not_matter,
      other_codes_have_the_text_of_the_system, what_is_no_code_is_said_to_be_none, errno_is_left_alone)
