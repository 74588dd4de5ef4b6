// RUN: dtensor-opt --list-passes | filecheck %s
// RUN: dtensor-opt --help | filecheck %s --check-prefix=HELP
// RUN: dtensor-opt --version | filecheck %s --check-prefix=VERSION

// CHECK: Passes:
// CHECK: dtensor-import
// CHECK: dtensor-fuse-cuts
// CHECK: without : str = rewrites to leave out, by name
// CHECK: dtensor-drop-layouts
// CHECK-NEXT: Removes every layout attribute and every dtensor.relayout.
// CHECK: keep-borders : bool = false leave the layouts of function arguments and results
// CHECK: Pipelines:
// CHECK: dtensor-spmd
// CHECK: dtensor-propagate a layout for every value
// CHECK: canonicalize

// HELP: usage: dtensor-opt [FILE] [passes] [options]
// HELP: --dtensor-spmd
// HELP: examples:

// VERSION: dtensor-opt {{[0-9.]+}} (jaxlib {{[0-9.]+}}, Python {{[0-9.]+}})
