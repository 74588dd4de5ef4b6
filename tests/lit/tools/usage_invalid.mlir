// What the command line gets wrong is one line on stderr and exit status 1.

// RUN: not dtensor-opt %t.missing 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: dtensor-opt: error: {{.*}}.missing: No such file or directory

// RUN: not dtensor-opt --dtensor-imprt 2>&1 | filecheck %s --check-prefix=FLAG
// FLAG: dtensor-opt: error: unrecognized arguments: --dtensor-imprt; did you mean '--dtensor-import'?; see dtensor-opt --help

// RUN: not dtensor-opt %s --mesh x=2,y 2>&1 | filecheck %s --check-prefix=MESH
// MESH: dtensor-opt: error: --mesh 'x=2,y': 'y' is no axis; the form is x=2,y=4

// RUN: not dtensor-opt %s --mesh x=2,x=4 2>&1 | filecheck %s --check-prefix=TWICE
// TWICE: dtensor-opt: error: --mesh 'x=2,x=4': mesh axis 'x' is given twice

// RUN: not dtensor-opt %s --cse --mlir-print-ir-after=cxe 2>&1 | filecheck %s --check-prefix=PRINT
// PRINT: dtensor-opt: error: cannot print the module around 'cxe': it does not run; did you mean 'cse'?

// RUN: not dtensor-opt %s --split-input-file -o %t.no/such/folder 2>&1 | filecheck %s --check-prefix=OUTPUT
// OUTPUT: dtensor-opt: error: {{.*}}: No such file or directory

// RUN: not dtensor-opt %s --split-input-file --emit-bytecode 2>&1 | filecheck %s --check-prefix=BYTECODE
// BYTECODE: dtensor-opt: error: --emit-bytecode writes one module, but the input has 2; split the file
func.func @main() {
  return
}

// -----

func.func @main() {
  return
}
