// SPDX-License-Identifier: GPL-2.0
//! The structures, constants and functions of lsmem::sys are those of the headers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use lsmem::sys;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a program in C with the headers; returns whether that works, and what it prints.
fn c_program(name: &str, text: &str) -> Result<String, String> {
    let directory = std::env::temp_dir().join(format!("lsmem-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (source, program) = (directory.join("program.c"), directory.join("program"));
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .arg("-Werror")
        .arg("-I")
        .arg(root().join("tools/include"))
        .arg("-I")
        .arg(root().join("tools/lib"))
        .args(["-o".as_ref(), program.as_os_str(), source.as_os_str()])
        .output()
        .unwrap();
    let shown = if compiled.status.success() {
        Ok(String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&compiled.stderr).into_owned())
    };
    std::fs::remove_dir_all(&directory).unwrap();
    shown
}

const HEAD: &str = "#include <errno.h>\n#include <poll.h>\n#include <stddef.h>\n#include <stdio.h>\n\
                    #include <sys/mman.h>\n#include <lsmem/lsmem_format.h>\n#include \"lsmem.h\"\n";

/// What is wanted, by the expression of C that has it.
fn wanted() -> BTreeMap<String, i64> {
    let mut wanted: BTreeMap<String, i64> =
        sys::constants().iter().map(|(name, value)| (name.to_string(), *value)).collect();
    for layout in sys::layouts() {
        let name = format!("struct {}", layout.name);
        wanted.insert(format!("sizeof({name})"), layout.size as i64);
        for (member, offset, size) in layout.members {
            let member = member.trim_start_matches("r#");
            wanted.insert(format!("offsetof({name}, {member})"), offset as i64);
            wanted.insert(format!("sizeof((({name} *)0)->{member})"), size as i64);
        }
    }
    wanted
}

#[test]
fn layouts_and_constants_are_those_of_the_headers() {
    let wanted = wanted();
    let lines: String =
        wanted.keys().map(|text| format!("\tprintf(\"%lld\\n\", (long long)({text}));\n")).collect();
    let shown = c_program("layouts", &format!("{HEAD}int main(void)\n{{\n{lines}\treturn 0;\n}}\n")).unwrap();
    let values: Vec<i64> = shown.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(values.len(), wanted.len());
    assert!(wanted.len() > 100);
    for ((text, here), there) in wanted.iter().zip(values) {
        assert_eq!(*here, there, "{text}");
    }
}

/// C's declaration of what a type of Rust in sys.rs is.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(rest) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(rest));
    }
    if let Some(rest) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(rest));
    }
    match rust {
        "c_int" => "int".into(),
        "c_uint" => "unsigned int".into(),
        "c_char" => "char".into(),
        "c_void" => "void".into(),
        "usize" => "size_t".into(),
        "isize" => "ssize_t".into(),
        "u32" => "uint32_t".into(),
        "u64" => "uint64_t".into(),
        "i64" => "int64_t".into(),
        "lsm_value" => "union lsm_value".into(),
        _ => format!("struct {rust}"),
    }
}

/// The functions of sys.rs, as C declares them.
fn declarations() -> Vec<String> {
    let source = std::fs::read_to_string(root().join("tools/rust/src/sys.rs")).unwrap();
    let block = source.split("extern \"C\" {").nth(1).unwrap();
    block
        .split("pub fn ")
        .skip(1)
        .map(|function| {
            let (name, rest) = function.split_once('(').unwrap();
            let (arguments, rest) = rest.split_once(')').unwrap();
            let returned =
                rest.split(';').next().unwrap().trim().strip_prefix("->").map_or("void".into(), c_type);
            let types: Vec<String> = arguments
                .split(',')
                .filter_map(|argument| argument.split_once(':'))
                .map(|(_, kind)| c_type(kind))
                .collect();
            format!("{returned} {name}({});", types.join(", "))
        })
        .collect()
}

#[test]
fn functions_are_those_of_the_header() {
    let declarations = declarations();
    assert!(declarations.len() > 30);
    // A declaration that differs from the header's does not compile.
    let text = format!("{HEAD}{}\nint main(void)\n{{\n\treturn 0;\n}}\n", declarations.join("\n"));
    if let Err(errors) = c_program("functions", &text) {
        panic!("{errors}");
    }
    let wrong = text.replace("lsm_fd(const struct lsm *)", "lsm_fd(struct lsm *)");
    assert_ne!(wrong, text);
    assert!(c_program("wrong", &wrong).is_err());
}

#[test]
fn errors_have_texts_and_numbers() {
    let error = lsmem::Store::open("/nonexistent/lsmem").unwrap_err();
    assert_eq!(error.errno(), sys::ENOENT);
    assert!(error.is_not_found());
    assert!(error.to_string().starts_with("lsm_open: "), "{error}");
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
    assert_eq!(lsmem::Store::open("a\0b").unwrap_err().errno(), sys::EINVAL);
    assert!(lsmem::Handle::from_raw(0).is_none());
}

#[test]
fn threads_share_what_they_may() {
    fn share<T: Send + Sync>() {}
    share::<lsmem::Store>();
    share::<lsmem::Table<'_>>();
    share::<lsmem::View<'_>>();
    share::<lsmem::Group<'_, '_>>();
    share::<lsmem::Region>();
    share::<lsmem::Pool>();
    share::<lsmem::Watch>();
    share::<lsmem::Question>();
    share::<lsmem::Error>();
}
