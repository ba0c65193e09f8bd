/*
 * http/type.c: content types by the extensions of names. Types of text say charset=utf-8: almost all text is UTF-8, and
 * browsers guess if no charset is given. XML files name their encoding themselves.
 */
#include <string.h>

#include <weft/http.h>

enum { LONGEST = 11 }; /* the longest extension that is known */

struct type {
    char extension[LONGEST + 1]; /* in lower case */
    const char *type;
};

/* Sorted by extension. */
static const struct type types[] = {
    {"3gp", "video/3gpp"},
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"apng", "image/apng"},
    {"atom", "application/atom+xml"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/plain; charset=utf-8"},
    {"conf", "text/plain; charset=utf-8"},
    {"css", "text/css; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"eot", "application/vnd.ms-fontobject"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h", "text/plain; charset=utf-8"},
    {"heic", "image/heic"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"ico", "image/x-icon"},
    {"ics", "text/calendar; charset=utf-8"},
    {"jar", "application/java-archive"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"jsonld", "application/ld+json"},
    {"jxl", "image/jxl"},
    {"log", "text/plain; charset=utf-8"},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"m4a", "audio/mp4"},
    {"m4v", "video/mp4"},
    {"map", "application/json"},
    {"markdown", "text/markdown; charset=utf-8"},
    {"md", "text/markdown; charset=utf-8"},
    {"mid", "audio/midi"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpeg", "video/mpeg"},
    {"mpg", "video/mpeg"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"oga", "audio/ogg"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/ogg"},
    {"otf", "font/otf"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"ps", "application/postscript"},
    {"rar", "application/vnd.rar"},
    {"rss", "application/rss+xml"},
    {"rtf", "application/rtf"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain; charset=utf-8"},
    {"vtt", "text/vtt; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

/* Copies an extension in lower case. False: it is longer than any that is known. */
static bool copy_lower(char out[LONGEST + 1], const char *extension)
{
    size_t size = strlen(extension);
    if (size > LONGEST)
        return false;
    for (size_t i = 0; i <= size; i++)
        out[i] = (char)(extension[i] >= 'A' && extension[i] <= 'Z' ? extension[i] + ('a' - 'A') : extension[i]);
    return true;
}

/* The text behind the last dot in the last part of a path. A dot at the beginning of a name does not count. */
static const char *extension_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    if (slash)
        name = slash + 1;
    const char *dot = strrchr(name, '.');
    return dot && dot != name ? dot + 1 : "";
}

const char *weft_http_type(const char *name)
{
    char wanted[LONGEST + 1];
    size_t from = 0, to = name && copy_lower(wanted, extension_of(name)) ? sizeof types / sizeof types[0] : 0;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(types[middle].extension, wanted);
        if (order == 0)
            return types[middle].type;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return "application/octet-stream";
}
