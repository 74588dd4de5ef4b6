// A pipeline that cannot run is an error with a caret, before any pass runs; never an abort.

// RUN: not dtensor-opt %s --pass-pipeline='builtin.module(cse, dtensor-improt)' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// UNKNOWN: dtensor-opt: error: pass pipeline:21: unknown pass 'dtensor-improt'; did you mean 'dtensor-import'?
// UNKNOWN-NEXT:   builtin.module(cse, dtensor-improt)
// UNKNOWN-NEXT: {{^                      \^$}}

// RUN: not dtensor-opt %s -p zzz 2>&1 | filecheck %s --check-prefix=FAR
// FAR: unknown pass 'zzz'; dtensor-opt --list-passes lists them

// RUN: not dtensor-opt %s -p 'func.func(inline)' 2>&1 | filecheck %s --check-prefix=ANCHOR
// ANCHOR: pass pipeline:11: pass 'inline' runs on the module; move it out of func.func

// RUN: not dtensor-opt %s -p 'func.func(dtensor-verify)' 2>&1 | filecheck %s --check-prefix=OWN
// OWN: pass 'dtensor-verify' runs on the module; move it out of func.func

// RUN: not dtensor-opt %s -p 'func.func(dtensor-prepare)' 2>&1 | filecheck %s --check-prefix=NAMED
// NAMED: pipeline 'dtensor-prepare' runs on the module, not in func.func

// RUN: not dtensor-opt %s -p 'dtensor-drop-layouts{keep-border=true}' 2>&1 | filecheck %s --check-prefix=OPTION
// OPTION: pass 'dtensor-drop-layouts' has no option 'keep-border'; did you mean 'keep-borders'?

// RUN: not dtensor-opt %s -p 'dtensor-verify{a=1}' 2>&1 | filecheck %s --check-prefix=NONE
// NONE: pass 'dtensor-verify' has no option 'a'; it has none

// RUN: not dtensor-opt %s -p 'dtensor-drop-layouts{keep-borders=maybe}' 2>&1 | filecheck %s --check-prefix=VALUE
// VALUE: option 'keep-borders' of pass 'dtensor-drop-layouts' is 'maybe'; give true or false

// RUN: not dtensor-opt %s -p 'canonicalize{loud=true}' 2>&1 | filecheck %s --check-prefix=CXX
// CXX: pass 'canonicalize': no such option loud

// RUN: not dtensor-opt %s -p 'func.func(cse' 2>&1 | filecheck %s --check-prefix=OPEN
// OPEN: pass pipeline:10: '(' is never closed; add ')'

// RUN: not dtensor-opt %s -p 'cse{a=1' 2>&1 | filecheck %s --check-prefix=BRACE
// BRACE: pass pipeline:4: '{' is never closed; add '}'

// RUN: not dtensor-opt %s -p 'cse cse' 2>&1 | filecheck %s --check-prefix=COMMA
// COMMA: pass pipeline:5: unexpected 'c'; separate passes by ','

// RUN: not dtensor-opt %s --cse -p cse 2>&1 | filecheck %s --check-prefix=WAYS
// WAYS: give passes as flags, by -p, or by --pass-pipeline, but one way only

// RUN: not dtensor-opt %s -p 'cse,' 2>&1 | filecheck %s --check-prefix=END
// END: pass pipeline:5: expected the name of a pass, found the end

// RUN: not dtensor-opt %s -p 'cse{a=1 a=2}' 2>&1 | filecheck %s --check-prefix=TWICE
// TWICE: pass pipeline:1: option 'a' is given twice; give it once

// A C++ pass that fails says why, in a line.
// RUN: not dtensor-opt %s -p 'stablehlo-legalize-to-vhlo, vhlo-to-version{target=0.1.0}' 2>&1 | filecheck %s --check-prefix=FAILS
// FAILS: pipeline_invalid.mlir: error: target version 0.1.0 is less than minimum supported

// No pass is a pipeline too.
// RUN: dtensor-opt %s -p 'func.func()' | filecheck %s --check-prefix=NESTED

// A C++ pass that runs on functions needs no func.func around it.
// RUN: dtensor-opt %s -p chlo-legalize-to-stablehlo | filecheck %s --check-prefix=NESTED
// NESTED: func.func @main
func.func @main() {
  return
}
