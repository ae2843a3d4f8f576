/* wmain.c: converts the program's arguments to UTF-8, sets its streams to binary, and enables
 * colours on its terminal. */
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>

#include <windows.h>

#include "platform/os/windows/wide.h"

int main(int argc, char **argv);
int wmain(int argc, wchar_t **argv);

int wmain(int argc, wchar_t **argv)
{
    const DWORD streams[] = {STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
    char **narrow = calloc((size_t)argc + 1, sizeof *narrow);
    for (int i = 0; narrow && i < argc; i++)
        narrow[i] = fv_narrow(argv[i]);
    for (int fd = 0; fd < 3; fd++)
        _setmode(fd, _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
    for (int i = 0; i < 2; i++) {
        DWORD mode;
        HANDLE stream = GetStdHandle(streams[i]);
        if (GetConsoleMode(stream, &mode))
            SetConsoleMode(stream, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    }
    /* The arguments are needed as long as the program runs. */
    return narrow ? main(argc, narrow) : 1;
}
