// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Where liblsmem.so is: in $LSMEM_LIB_DIR, else where the linker looks.

fn main() {
    println!("cargo:rerun-if-env-changed=LSMEM_LIB_DIR");
    if let Ok(directory) = std::env::var("LSMEM_LIB_DIR") {
        println!("cargo:rustc-link-search=native={directory}");
    }
    println!("cargo:rustc-link-lib=dylib=lsmem");
}
