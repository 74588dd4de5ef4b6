// RUN: dtensor-opt %s --cse --cse --mlir-print-ir-after-change -o %t 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: dtensor-opt %s --dtensor-verify --cse --mlir-print-ir-after=cse --mlir-print-ir-after-change -o %t 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: not dtensor-opt %s --cse --dtensor-import --cse --mlir-print-ir-after-failure 2>&1 | filecheck %s --check-prefix=FAILURE
// RUN: dtensor-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: dtensor-opt %s --mlir-elide-elementsattrs-if-larger=4 --cse --mlir-print-ir-after-all 2>&1 | filecheck %s --check-prefix=ELIDED
// RUN: dtensor-opt %s --mlir-elide-elementsattrs-if-larger=5 | filecheck %s --check-prefix=WHOLE
// RUN: not dtensor-opt %s --mlir-elide-elementsattrs-if-larger=few 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: dtensor-opt %s --mesh x=2 -p "dtensor-import, func.func(cse), dtensor-lower{keep-layouts=true}, canonicalize{top-down=false}" --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=DUMP

// CHANGE: IR Dump After cse
// CHANGE: stablehlo.add %[[A:.*]], %[[A]]
// CHANGE-NOT: IR Dump

// FAILURE-NOT: IR Dump After cse
// FAILURE: // -----// IR Dump After dtensor-import Failed //----- //
// FAILURE: func.func @main
// FAILURE-NOT: IR Dump
// FAILURE: error: no mesh

// GENERIC: "func.func"() <{
// GENERIC: "stablehlo.add"(

// ELIDED: IR Dump After cse
// ELIDED: dense_resource<__elided__>
// ELIDED: dense_resource<__elided__>

// WHOLE: dense<[1, 2, 3, 4, 5]>

// WRONG: dtensor-opt: error: argument --mlir-elide-elementsattrs-if-larger: 'few' is no number of elements

// DUMP: Pass Manager with 4 passes:
// DUMP-NEXT: builtin.module(dtensor-import, func.func(cse), dtensor-lower{keep-layouts=true variadic=false bits=false}, canonicalize{top-down=false})
func.func @main(%arg0: tensor<5xi32>) -> tensor<5xi32> {
  %c = stablehlo.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>
  %0 = stablehlo.negate %arg0 : tensor<5xi32>
  %1 = stablehlo.negate %arg0 : tensor<5xi32>
  %2 = stablehlo.add %0, %1 : tensor<5xi32>
  %3 = stablehlo.add %2, %c : tensor<5xi32>
  return %3 : tensor<5xi32>
}
