/*
 * completions.c - `vramscope completions`: for bash, zsh and fish, from the tables that parsing and --help
 * are made of.  The build writes the three files that are installed.
 */
#include <stdio.h>
#include <string.h>

#include "base/args.h"

static const struct option_row rows[] = {{0}};

typedef void command_visit(const struct command *c);

static void each_command(command_visit *visit)
{
    for (const struct command *const *c = vramscope_commands; *c; c++)
        visit(*c);
}

static void put_name(const struct command *c)
{
    printf("%s ", c->name);
}

/* "a|b|c", or lines of a list in shells: the words of a choice, parted by blanks. */
static void put_choices(const char *value)
{
    for (; *value; value++)
        putchar(*value == '|' ? ' ' : *value);
}

/* Whether the option must have a value. */
static bool needs_value(const struct option_row *r)
{
    return r->value && r->value[0] != '[';
}

static bool is_choice(const struct option_row *r)
{
    return r->value && strchr(r->value, '|');
}

static bool is_file(const struct option_row *r)
{
    return r->kind == ARG_TEXT && r->value &&
           (strstr(r->value, "FILE") || strstr(r->value, "DIR") || strstr(r->value, "DB"));
}

/* TEXT within single quotes, without what OTHERS has. */
static void put_quoted(const char *text, const char *others, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs(quote, stdout);
        else if (!strchr(others, *text))
            putchar(*text == '\n' ? ' ' : *text);
    }
}

static bool takes_files(const struct command *h)
{
    return strstr(h->synopsis, "FILE") || strstr(h->synopsis, "DIR") || strstr(h->synopsis, " A ") ||
           strstr(h->synopsis, "JOURNAL");
}

/* ---- bash ---- */

static void bash_options(const struct command *h)
{
    printf("    %s) options='--help", h->name);
    for (const struct option_row *r = h->rows; r->name; r++)
        printf(" --%s%s", r->name, needs_value(r) ? "=" : "");
    puts("' ;;");
}

static void bash_values(const struct command *h)
{
    for (const struct option_row *r = h->rows; r->name; r++) {
        if (!needs_value(r))
            continue;
        printf("    '%s --%s'", h->name, r->name);
        if (r->letter)
            printf(" | '%s -%c'", h->name, r->letter);
        if (is_choice(r)) {
            fputs(") values='", stdout);
            put_choices(r->value);
            puts("' ;;");
        } else {
            printf(") kind=%s ;;\n", is_file(r) ? "file" : "any");
        }
    }
}

static void bash(void)
{
    puts(
        "# bash completion of vramscope: made by `vramscope completions bash`\n"
        "_vramscope() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' options='' "
        "values='' kind='' i\n"
        "    COMPREPLY=()\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]} && break; }\n"
        "    done\n"
        "    if [[ -z $command ]]; then\n"
        "        mapfile -t COMPREPLY < <(compgen -W '");
    each_command(put_name);
    puts("help --help --version' -- \"$word\")\n"
         "        return\n"
         "    fi\n"
         "    # bash parts words at '='\n"
         "    [[ $word == '=' ]] && word=''\n"
         "    [[ $before == '=' ]] && before=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "    case $command in");
    each_command(bash_options);
    fputs("    help) values='", stdout);
    each_command(put_name);
    puts("' ;;\n"
         "    esac\n"
         "    [[ $command == completions ]] && values='bash zsh fish'\n"
         "    case \"$command $before\" in");
    each_command(bash_values);
    puts("    esac\n"
         "    if [[ -n $values && $word != -* ]]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\")\n"
         "    elif [[ $kind == any ]]; then\n"
         "        return\n"
         "    elif [[ $word == -* && -z $kind ]]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
         "        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null\n"
         "    else\n"
         "        compopt -o filenames 2>/dev/null\n"
         "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
         "    fi\n"
         "}\n"
         "complete -F _vramscope vramscope");
}

/* ---- zsh ---- */

static void zsh_command(const struct command *h)
{
    printf("  (%s) _arguments -s ", h->name);
    for (const struct option_row *r = h->rows; r->name; r++) {
        fputs("\\\n    '", stdout);
        if (r->letter)
            printf("(-%c --%s)'{-%c%s,--%s%s}'[", r->letter, r->name, r->letter, r->value ? "+" : "", r->name,
                   r->value ? "=" : "");
        else
            printf("--%s%s[", r->name, needs_value(r) ? "=" : "");
        put_quoted(r->help, "[]:", "'\\''");
        putchar(']');
        if (r->value && is_choice(r)) {
            printf(":%s:(", r->name);
            put_choices(r->value);
            putchar(')');
        } else if (needs_value(r)) {
            printf(":%s:%s", r->name, is_file(r) ? "_files" : "");
        }
        fputs("' ", stdout);
    }
    fputs("\\\n    '(-h --help)'{-h,--help}'[help]' ", stdout);
    if (h->stop_at_operand)
        puts("\\\n    '(-)1:command:_command_names -e' '*::arguments:_normal' ;;");
    else if (!strcmp(h->name, "completions"))
        puts("\\\n    '1:shell:(bash zsh fish)' ;;");
    else
        puts(takes_files(h) ? "\\\n    '*:file:_files' ;;" : ";;");
}

static void zsh_name(const struct command *c)
{
    printf("    '%s:", c->name);
    put_quoted(c->line, ":", "'\\''");
    puts("'");
}

static void zsh(void)
{
    puts("#compdef vramscope\n# made by `vramscope completions zsh`\n_vramscope() {\n"
         "  local -a commands\n  commands=(");
    each_command(zsh_name);
    puts("  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands\n"
         "    _arguments '--help[help]' '--version[version]'\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in\n"
         "  (help) _describe command commands ;;");
    each_command(zsh_command);
    puts("  esac\n}\n_vramscope \"$@\"");
}

/* ---- fish ---- */

static void fish_command(const struct command *h)
{
    for (const struct option_row *r = h->rows; r->name; r++) {
        printf("complete -c vramscope -n '__fish_seen_subcommand_from %s' -l %s", h->name, r->name);
        if (r->letter)
            printf(" -s %c", r->letter);
        if (r->value && is_choice(r)) {
            fputs(" -x -a '", stdout);
            put_choices(r->value);
            putchar('\'');
        } else if (needs_value(r)) {
            fputs(is_file(r) ? " -r -F" : " -x", stdout);
        }
        fputs(" -d '", stdout);
        put_quoted(r->help, "", "\\'");
        puts("'");
    }
    printf("complete -c vramscope -n '__fish_seen_subcommand_from %s' -l help -s h -d help\n", h->name);
}

static void fish_name(const struct command *c)
{
    printf("complete -c vramscope -f -n __fish_use_subcommand -a %s -d '", c->name);
    put_quoted(c->line, "", "\\'");
    puts("'");
}

static void fish(void)
{
    puts("# made by `vramscope completions fish`");
    each_command(fish_name);
    puts("complete -c vramscope -n __fish_use_subcommand -l help -d help\n"
         "complete -c vramscope -n __fish_use_subcommand -l version -d version\n"
         "complete -c vramscope -f -n '__fish_seen_subcommand_from completions' -a 'bash zsh fish'");
    each_command(fish_command);
}

static int call(void *options, char **operands, int n)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    const char *shell = n == 1 ? operands[0] : "";
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shell, shells[i].name)) {
            shells[i].print();
            return EXIT_GOOD;
        }
    return complain("completions: which shell? vramscope completions bash, zsh or fish");
}

const struct command command_completions = {
    "completions",
    "print the completions of bash, zsh or fish",
    "bash|zsh|fish",
    "Prints the completions of that shell; they are installed with the command, too.\n"
    "  bash   source <(vramscope completions bash)\n"
    "  zsh    vramscope completions zsh >DIR/_vramscope, DIR in $fpath\n"
    "  fish   vramscope completions fish | source",
    rows,
    call,
    .size = 0};
