use proptest::prelude::*;

use super::*;

/// Matches every clean command, and is no form that skips the guard.
const ANY_CLEAN: &str = r"[\s\S]*";

fn allowed(command: &str, list: &[&str]) -> bool {
    let list: Vec<String> = list.iter().map(|&entry| entry.to_owned()).collect();
    gate(command, &list, None) == Gate::Allowed
}

fn hints(command: &str) -> &'static str {
    hints_in(command, None)
}

fn hints_in(command: &str, workspace: Option<&str>) -> &'static str {
    let workspace = workspace.map(Path::new);
    match gate(command, &[ANY_CLEAN.to_owned()], workspace) {
        Gate::Allowed => "allowed",
        Gate::Refused { hint: found } => {
            assert_eq!(found, hint(command, workspace), "{command}");
            found
        }
    }
}

#[test]
fn an_entry_matches_the_whole_command_or_not_at_all() {
    for (command, entry, expected) in [
        ("gh", "gh", true),
        ("gh issue list", "gh", false),
        ("gh issue list", "gh issue.*", true),
        ("sudo gh issue list", "gh issue.*", false),
        ("  ls -la\n", "ls -la", true),
        ("ls -la > /dev/null 2>&1", "ls -la", true),
        ("ls", "^ls$", true),
        ("lsof", "ls|lsof", true),
        ("lsblk", "ls|lsof", false),
        ("echo 'a\nb'", "echo .*", true),
        ("ls", "", false),
        ("ls", "(", false),
        ("ls", "ls)|(?:.*", false),
        ("rm -rf x", "ls)|(?:.*", false),
        ("rm -rf x", "ls(?#", false),
        ("seq 1", r"seq \d", true),
        ("seq \u{661}", r"seq \d", false),
        ("seq \u{e9}", r"seq \w", false),
        ("a\u{a0}b", r"a\sb", false),
        ("seq \\d", r"seq \\d", true),
        ("x", "(x{1000}){1000}", false),
    ] {
        assert_eq!(allowed(command, &[entry]), expected, "{command} | {entry}");
    }
    assert!(allowed("ls", &["(", "", "ls"]));
    assert!(!allowed("ls", &[]));
}

#[test]
fn an_entry_names_a_program_where_all_that_it_lets_through_begins_with_a_word_it_spells_out() {
    let list = |entry: &str| [entry.to_owned()];
    for (command, entry) in [
        ("ls", "ls"),
        ("ls", "^ls$"),
        ("ls -la", "ls( .*)?"),
        ("git log -1", "git (diff|log)( .*)?"),
        ("make\ttest", r"make\s+test"),
        ("/srv/hooks/notify.sh done", r"/srv/hooks/notify\.sh .*"),
        ("LS x", "(?i)ls .*"),
        ("ls x", "l?s .*"),
        ("ls -la >/dev/null 2>&1", "ls -la"),
    ] {
        assert!(allowed(command, &[entry]), "{command} | {entry}");
        assert!(names(command, &list(entry), None), "{command} | {entry}");
    }
    // All of them are let through, and name no program.
    for entry in [
        ".*",
        "(.*)",
        ".{0,}",
        r"[\s\S]*",
        r"\w+.*",
        "[a-z]+ .*",
        "ls.*",
        "ls .*|.*",
        "|ls .*",
        "(ls)?.*",
        "(?i).*",
        "ls( .*)?|[^ ]+ .*",
    ] {
        assert!(allowed("ls -la", &[entry]), "{entry}");
        assert!(!names("ls -la", &list(entry), None), "{entry}");
    }
    for (command, entry) in [
        ("$HOOK x", r"\$HOOK .*"),
        ("A=b ls", "A=b .*"),
        ("/bin/ls", "/bin/.*"),
    ] {
        assert!(allowed(command, &[entry]), "{command} | {entry}");
        assert!(!names(command, &list(entry), None), "{command} | {entry}");
    }
    // Commands that the gate refuses are named by no entry.
    for (command, entry) in [
        ("ls x; rm y", "ls .*"),
        ("ls $(rm y)", "ls .*"),
        ("rm y", "ls .*"),
        ("rm y", "ls)|(?:rm .*"),
        ("ls /etc", "ls .*"),
        ("sort -o x y", "sort .*"),
        ("", ""),
    ] {
        assert!(!names(command, &list(entry), None), "{command} | {entry}");
    }
}

#[test]
fn a_list_that_lets_everything_through_skips_the_guard() {
    for entry in ALLOW_ALL {
        assert!(allowed("rm -rf $(pwd) | tee x; 'y", &[entry]), "{entry}");
        assert!(!allowed("  ", &[entry]), "{entry}");
    }
    assert!(allowed("a; b", &["ls", "  .*  "]));
    assert!(!allowed("a; b", &["(.*)"]));
}

#[test]
fn what_is_not_one_clean_command_is_told() {
    for (command, expected) in [
        ("ls $(pwd)", SUBSTITUTION),
        ("ls `pwd`", SUBSTITUTION),
        ("ls \"$(pwd)\"", SUBSTITUTION),
        ("ls \"`pwd`\"", SUBSTITUTION),
        ("diff <(ls) x", SUBSTITUTION),
        ("tee >(cat)", SUBSTITUTION),
        ("ls ${ pwd; }", SUBSTITUTION),
        ("ls \"${| pwd; }\"", SUBSTITUTION),
        ("ls '$(pwd) `pwd` <(x)'", "allowed"),
        ("grep \"<(x)\" y", "allowed"),
        ("ls \\$\\(x\\)", "allowed"),
        ("ls 'x", QUOTES),
        ("ls \"x", QUOTES),
        ("ls \"x\\\"", QUOTES),
        ("ls 'x\\'", "allowed"),
        ("ls \"${x#\"y\"}\"", QUOTES),
        ("ls \"${x#y}\" 'z' ${x#'}'} \"}'\"", PATH),
        ("ls $'a\\'b'", PATH),
        ("a && b", SEVERAL),
        ("a || b", SEVERAL),
        ("a | b", SEVERAL),
        ("a |& b", SEVERAL),
        ("a ; b", SEVERAL),
        ("a & b", SEVERAL),
        ("a &", SEVERAL),
        ("a\nb", SEVERAL),
        ("a\rb", SEVERAL),
        ("a ';|&' \"\n&&\" \\; \\&", "allowed"),
        // A shell sees two commands in each of these, a plain reading of the quotes one.
        ("ls $'\\'' ; id #'", QUOTES),
        ("ls #'\nid #'", SEVERAL),
        ("(ls)#'\nid #'", SEVERAL),
        ("ls $$'\\' ; id #'", QUOTES),
        ("ls \"${x#'\"'}\" ; id #'", QUOTES),
        ("ls a\\>& id", SEVERAL),
        ("ls > x", REDIRECT),
        ("ls >> x", REDIRECT),
        ("ls >&x", REDIRECT),
        ("ls &> x", REDIRECT),
        ("ls >/dev/null -l", REDIRECT),
        ("ls > /dev/nullx", REDIRECT),
        ("ls 2> \"x\"", REDIRECT),
        ("grep '>' x", "allowed"),
        ("grep \">\" x", "allowed"),
        ("ls \\> x", "allowed"),
        ("sort < x", "allowed"),
        ("> /dev/null", ""),
        ("find . -name x -delete", FIND),
        ("find . -exec rm {} +", FIND),
        ("find . '-exec' rm {} +", FIND),
        ("find\t. -okdir rm {} +", FIND),
        ("find . -fprint0 x", FIND),
        ("find . -executable -name '*-delete'", "allowed"),
        ("grep -exec x", "allowed"),
        ("echo $HOME", VARIABLE),
        ("echo \"${HOME}\"", VARIABLE),
        ("printf %s $1", VARIABLE),
        ("gh issue create --body $TOKEN", VARIABLE),
        ("gh pr edit 1 --body \"$TOKEN\"", VARIABLE),
        ("echo '$HOME' \\$HOME 5$ \"$ \"", "allowed"),
        ("gh issue list --label $X", PATH),
        ("/bin/echo $HOME", VARIABLE),
        ("A=b echo $HOME", VARIABLE),
        ("echo $[SECRET]", VARIABLE),
        // A line goes on behind a backslash, also in the middle of a word.
        ("ls $\\\n(id)", SUBSTITUTION),
        ("ls \"$\\\n(id)\"", SUBSTITUTION),
        ("echo $\\\nHOME", VARIABLE),
        ("ls \\\n -l \\\n x", "allowed"),
        ("ls '\\\n'", "allowed"),
        ("ls # \\\nid", SEVERAL),
        ("ls # \"\\\n\"id", SEVERAL),
    ] {
        assert_eq!(hints(command), expected, "{command:?}");
    }
    assert_eq!(hint("rm -rf x", None), "");
    assert_eq!(hint("", None), "");
}

#[test]
fn only_redirections_that_write_nothing_are_taken_off_the_end() {
    for (command, cleaned) in [
        ("ls >/dev/null", "ls"),
        ("ls > /dev/null", "ls"),
        ("ls >>/dev/null", "ls"),
        ("ls 2>/dev/null", "ls"),
        ("ls &>/dev/null", "ls"),
        ("ls &>>/dev/null", "ls"),
        ("ls 2>&1", "ls"),
        ("ls 2>&-", "ls"),
        ("ls >&2", "ls"),
        ("ls >/dev/null 2>&1", "ls"),
        // The digit is part of the word here.
        ("ls2>/dev/null", "ls2"),
        ("ls '>/dev/null'", "ls '>/dev/null'"),
        ("ls \\>/dev/null", "ls \\>/dev/null"),
    ] {
        assert_eq!(clean(command, None), Ok(cleaned.to_owned()), "{command}");
    }
}

#[test]
fn an_option_that_writes_a_file_is_refused_however_it_is_spelled() {
    for command in [
        "sort -o x y",
        "sort -ox y",
        "sort -uo x y",
        "sort -nro x y",
        "sort y -o x",
        "sort '-o' x y",
        "sort \\-o x y",
        "sort -\\\no x y",
        "sort --output=x y",
        "sort --output x y",
        "sort --out=x y",
        "sort --o x y",
        "sort \"--out\"put=x y",
        "sort --out\\\nput=x y",
        "sort -- y -o x",
        "/usr/bin/sort -o x y",
        "LC_ALL=C sort -o x y",
        "<y sort -o x",
        "(sort -o x y)",
        "tree -o x",
        "tree -ao x",
        "tree --output x",
        "git diff --output=x",
        "git diff --outp=x",
        "git log --output x",
        "git show HEAD --output x",
        "uniq x y",
        "uniq -c x y",
        "uniq x -c y",
        "uniq - y",
        "uniq -- x y",
        "uniq -- -x -y",
        "uniq -f 1 x",
    ] {
        assert_eq!(hints(command), WRITES, "{command:?}");
        assert!(allowed(command, &[".*"]), "{command:?}");
    }
    for command in [
        "sort x",
        "sort -n x",
        "sort -u -k 2 x",
        "sort --reverse x",
        "sort --",
        "tree",
        "tree -L 2",
        "tree --noreport",
        "git log -3",
        "git log --oneline -5",
        "git log --output-indicator-new=+",
        "git diff --no-color",
        "git log -o",
        "uniq",
        "uniq x",
        "uniq -c x",
        "uniq -- -x",
        "uniq x -",
        "uniq < x",
        "grep -o x y",
        "grep --output x",
        "resort -o x",
        "echo sort -o x",
    ] {
        assert_eq!(hints(command), "allowed", "{command:?}");
    }
}

#[test]
fn a_path_that_leaves_the_project_is_refused_wherever_it_stands() {
    for command in [
        "tail /etc/hosts",
        "tail -- /etc/hosts",
        "tail '/etc/hosts'",
        "tail \"/etc\"/hosts",
        "tail \\/etc/hosts",
        "tail //etc/hosts",
        "tail /tmp/../etc/hosts",
        "tail /tmpx",
        "ls /",
        "ls ..",
        "ls ../*",
        "ls ../x",
        "ls src/../..",
        "ls src/../../x",
        "ls ./.././x",
        "ls '..'/x",
        "ls .\"./x\"",
        "ls .\\\n./x",
        "wc -c < /etc/hosts",
        "wc -c </etc/hosts",
        "wc -c < ../x",
        "wc -c < -/../../x",
        "</etc/hosts wc -c",
        "wc -c <<< /etc/hosts",
        "sort --files0-from=/etc/hosts",
        "sort --files0-from=../x",
        "sort -T/etc x",
        "sort -T../x x",
        "sort -T /etc x",
        "head -- --x/../../y",
        "head -- -x/../../y",
        "find / -name id",
        "find .. -name id",
        "find . -newer /etc/hosts",
        "head a b /etc/hosts",
        "(head /etc/hosts)",
        "mkdir ../x",
        "mkdir -p /x",
        "ln -s x ../y",
        "ln -s x ../y -f",
        "ln -s ../x",
        "ln ../x y",
        "ln -s -t ../x y",
        "git show ../x",
        "git -C /etc log",
        "A=b head /etc/hosts",
        "/bin/echo /etc/hosts",
    ] {
        assert_eq!(hints(command), PATH, "{command:?}");
        assert_eq!(hints_in(command, Some("/srv/p")), PATH, "{command:?}");
        assert!(allowed(command, &[".*"]), "{command:?}");
    }
    for command in [
        "ls",
        "ls -la",
        "ls src",
        "ls .",
        "ls ./src/..",
        "ls src/../x",
        "ls ...",
        "ls ..x",
        "ls x..",
        "cat README.md",
        "head -n 20 main.go",
        "ls *",
        "ls src/*.go",
        "ls '.*'",
        "find . -name '*.go'",
        "git log -3",
        "git log main..HEAD",
        "git diff HEAD~1 -- src",
        "git show HEAD:src/x",
        "mkdir -p build/out",
        "ln -s ../.agents/skills .claude/skills",
        "ln -sfn /opt/x y",
        "echo /etc/hosts",
        "printf %s ../x",
        "grep -r '[.]' src",
        "ls -- -x",
        "ls --color=auto",
        "sort -T. x",
        "ls ''",
        "ls /tmp/x",
        "wc -c < x",
        "/srv/hooks/notify.sh done",
        "../hooks/notify.sh done",
        "gh api repos/{owner}/{repo}/contents/README.md",
    ] {
        assert_eq!(hints(command), "allowed", "{command:?}");
        assert_eq!(hints_in(command, Some("/srv/p")), "allowed", "{command:?}");
    }
}

#[test]
fn an_absolute_path_is_of_the_project_where_the_workspace_is_known() {
    for (command, expected) in [
        ("ls /srv/p", "allowed"),
        ("ls /srv/p/src", "allowed"),
        ("ls ../p/src", "allowed"),
        ("ls --sort=/srv/p/x", "allowed"),
        ("ls /srv/./p/src/../x", "allowed"),
        ("ls /srv/p/..", PATH),
        ("ls /srv/p/../q", PATH),
        ("ls /srv/pq", PATH),
        ("ls /work", PATH),
        ("ls ../q", PATH),
        // Between double quotes the backslash is part of the name.
        ("ls \"/srv/\\p/x\"", PATH),
    ] {
        let found = hints_in(command, Some("/srv/p"));
        assert_eq!(found, expected, "{command:?}");
        assert_eq!(hints_in(command, Some("/srv/q/../p/")), found);
        assert_eq!(hints(command), PATH, "{command:?}");
        assert_eq!(hints_in(command, Some("p")), PATH, "{command:?}");
    }
}

#[test]
fn a_word_that_depends_on_the_environment_is_refused_and_a_literal_one_is_not() {
    for command in [
        "ls $X",
        "ls ${X}",
        "ls \"$X\"",
        "ls x$X",
        "ls ${X:-x}",
        "ls $1",
        "ls $@",
        "ls $[1]",
        "ls --color=$X",
        "ls --$X",
        "ls -$X",
        "wc -c < $X",
        "ls $'x'",
        "ls $\"x\"",
        "ls ~",
        "ls ~/x",
        "ls ~root",
        "ls ~+/x",
        "head ~/.aws/credentials",
        "ls if=~/x",
        "ls a:~/x",
        "head {a,/etc/hosts}",
        "head x{1..3}",
        "sort {-o,x} y",
        "sort --{out,in}put x",
        "ls .*",
        "ls x/.*",
        "ls .?/x",
        "ls .[.]/x",
        "ls --ignore=.*",
        "ln -s x .*",
        "A=$X ls",
    ] {
        assert_eq!(hints(command), PATH, "{command:?}");
        assert_eq!(hints_in(command, Some("/srv/p")), PATH, "{command:?}");
    }
    for command in [
        "ls '$X'",
        "ls \\$X",
        "ls x$",
        "ls \"x$\"",
        "ls '~'",
        "ls \\~/x",
        "ls x~",
        "ls HEAD~1",
        "head '{a,b}'",
        "head \\{a,b}",
        "head {}",
        "ls a,b",
        "echo {a,b} ~",
        "$HOOK x",
    ] {
        assert_eq!(hints(command), "allowed", "{command:?}");
    }
}

#[test]
fn a_file_of_the_project_that_holds_secrets_is_refused() {
    for command in [
        "head .env",
        "head x/prod.env",
        "head ./.env",
        "head .environment",
        "head auth.yaml",
        "head x/server.key",
        "head *.pem",
        "head id_rsa",
        "head < id_ed25519",
        "find . -name id_rsa",
        "git show HEAD:.env",
        "ls .git",
        "ls .git/",
        "head x/.git/config",
        "head .infer/config.yaml",
        "head /tmp/.env",
        "bash .infer/hooks/x.sh",
        "grep --include='*.key' x",
    ] {
        assert_eq!(hints(command), PATH, "{command:?}");
    }
    for command in [
        "head x.env.md",
        "head environment",
        "head myauth.yaml.bak",
        "head id_rsa.pub",
        "ls .github/workflows",
        "ls .git/..",
        "ls .gitignore",
        ".infer/hooks/x.sh done",
    ] {
        assert_eq!(hints(command), "allowed", "{command:?}");
    }
    assert_eq!(hints_in("head /srv/p/.env", Some("/srv/p")), PATH);
    assert_eq!(hints_in("head x", Some("/srv/.git/p")), "allowed");
}

proptest! {
    #[test]
    fn any_command_and_list_have_an_answer(command in any::<String>(), list in proptest::collection::vec(any::<String>(), 0..4)) {
        let answer = gate(&command, &list, None);
        prop_assert!(answer != Gate::Allowed || !list.is_empty());
    }

    #[test]
    fn an_unquoted_separator_is_never_let_through(
        before in r"[a-z0-9 $=/.,:~^%{}()\[\]-]{0,20}",
        separator in "[;\n`|]",
        behind in "[a-z'\" \\\\>&-]{0,20}",
    ) {
        let command = format!("x{before}{separator}{behind}x");
        prop_assert!(!allowed(&command, &[ANY_CLEAN]), "{command:?}");
    }

    #[test]
    fn what_is_let_through_has_nothing_to_mend(command in "[a-z $;|&<>()`'\"\\\\#\n-]{0,24}") {
        prop_assert!(!allowed(&command, &[ANY_CLEAN]) || hint(&command, None).is_empty());
    }
}
