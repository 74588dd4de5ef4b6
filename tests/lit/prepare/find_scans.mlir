// RUN: dtensor-opt %s --split-input-file --dtensor-find-forms --cse | filecheck %s

// A scan of four elements as `jax.lax.associative_scan` writes it, by what does not commute.

// CHECK-LABEL: func.func @scan_of_pairs
func.func @scan_of_pairs(%a: tensor<4x3xf32>, %b: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK: %[[SCAN:.*]]:2 = "dtensor.scan"(%arg1, %arg0) ({
  // CHECK-NEXT: ^bb0(%[[B:.*]]: tensor<f32>, %[[A:.*]]: tensor<f32>, %[[NEXT_B:.*]]: tensor<f32>, %[[NEXT_A:.*]]: tensor<f32>):
  // CHECK: %[[PART:.*]] = stablehlo.multiply %[[B]], %[[NEXT_A]]
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[PART]], %[[NEXT_B]]
  // CHECK: %[[BOTH:.*]] = stablehlo.multiply %[[A]], %[[NEXT_A]]
  // CHECK: stablehlo.return %[[SUM]], %[[BOTH]]
  // CHECK: }) {dim = 0 : i64, reverse = 0 : i64}
  // CHECK-NEXT: return %[[SCAN]]#0
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.slice %a [0:3:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.slice %b [0:3:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %a [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.slice %b [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.multiply %0, %2 : tensor<2x3xf32>
  %5 = stablehlo.multiply %1, %2 : tensor<2x3xf32>
  %6 = stablehlo.add %5, %3 : tensor<2x3xf32>
  %7 = stablehlo.slice %6 [0:1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %8 = stablehlo.slice %4 [1:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %9 = stablehlo.slice %6 [1:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %10 = stablehlo.multiply %7, %8 : tensor<1x3xf32>
  %11 = stablehlo.add %10, %9 : tensor<1x3xf32>
  %12 = stablehlo.slice %11 [0:0, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %13 = stablehlo.slice %4 [2:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %14 = stablehlo.slice %6 [2:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %15 = stablehlo.multiply %12, %13 : tensor<0x3xf32>
  %16 = stablehlo.add %15, %14 : tensor<0x3xf32>
  %17 = stablehlo.slice %6 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %18 = stablehlo.concatenate %17, %16, dim = 0 : (tensor<1x3xf32>, tensor<0x3xf32>) -> tensor<1x3xf32>
  %19 = stablehlo.pad %18, %zero, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %20 = stablehlo.pad %11, %zero, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %21 = stablehlo.add %19, %20 : tensor<2x3xf32>
  %22 = stablehlo.slice %21 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %23 = stablehlo.slice %a [2:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %24 = stablehlo.slice %b [2:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %25 = stablehlo.multiply %22, %23 : tensor<1x3xf32>
  %26 = stablehlo.add %25, %24 : tensor<1x3xf32>
  %27 = stablehlo.slice %b [0:1, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %28 = stablehlo.concatenate %27, %26, dim = 0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %29 = stablehlo.pad %28, %zero, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %30 = stablehlo.pad %21, %zero, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %31 = stablehlo.add %29, %30 : tensor<4x3xf32>
  return %31 : tensor<4x3xf32>
}

// -----

// Its gradient reads what stands in between; it is a scan from the other end on, of what the loss
// changes with each element, and two shifts by one.

// CHECK-LABEL: func.func @gradient_of_a_scan
func.func @gradient_of_a_scan(%a: tensor<4x3xf32>, %b: tensor<4x3xf32>, %c: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) {
  // CHECK: %[[SCAN:.*]]:2 = "dtensor.scan"(%arg1, %arg0)
  // CHECK: reverse = 0 : i64
  // CHECK-NEXT: %[[START:.*]] = stablehlo.multiply %arg0, %arg2
  // CHECK-NEXT: %[[BACK:.*]]:2 = "dtensor.scan"(%arg0, %[[START]]) ({
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<f32>, %[[H:.*]]: tensor<f32>, %[[NEXT_A:.*]]: tensor<f32>, %[[NEXT_H:.*]]: tensor<f32>):
  // CHECK: %[[BOTH:.*]] = stablehlo.multiply %[[NEXT_A]], %[[A]]
  // CHECK: %[[PART:.*]] = stablehlo.multiply %[[NEXT_A]], %[[H]]
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[PART]], %[[NEXT_H]]
  // CHECK: stablehlo.return %[[BOTH]], %[[SUM]]
  // CHECK: }) {dim = 0 : i64, reverse = 1 : i64}
  // CHECK: %[[LATER:.*]] = stablehlo.slice %[[BACK]]#1 [1:4, 0:3]
  // CHECK: %[[MOVED:.*]] = stablehlo.concatenate %[[LATER]], %[[ZERO:.*]], dim = 0
  // CHECK: %[[DB:.*]] = stablehlo.add %arg2, %[[MOVED]]
  // CHECK: %[[EARLIER:.*]] = stablehlo.slice %[[SCAN]]#0 [0:3, 0:3]
  // CHECK: %[[BEFORE:.*]] = stablehlo.concatenate %[[ZERO]], %[[EARLIER]], dim = 0
  // CHECK: %[[PRODUCT:.*]] = stablehlo.multiply %[[BEFORE]], %[[DB]]
  // Zero at the first element, whatever it would be multiplied by.
  // CHECK: %[[INDEX:.*]] = stablehlo.iota dim = 0
  // CHECK: %[[FIRST:.*]] = stablehlo.compare EQ, %[[INDEX]]
  // CHECK: %[[DA:.*]] = stablehlo.select %[[FIRST]], %{{.*}}, %[[PRODUCT]]
  // CHECK: return %[[SCAN]]#0, %[[DA]], %[[DB]]
  %0 = stablehlo.slice %a [0:3:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.slice %b [0:3:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %a [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.slice %b [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.multiply %0, %2 : tensor<2x3xf32>
  %5 = stablehlo.multiply %1, %2 : tensor<2x3xf32>
  %6 = stablehlo.add %5, %3 : tensor<2x3xf32>
  %7 = stablehlo.slice %6 [0:1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %8 = stablehlo.slice %4 [1:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %9 = stablehlo.slice %6 [1:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %10 = stablehlo.multiply %7, %8 : tensor<1x3xf32>
  %11 = stablehlo.add %10, %9 : tensor<1x3xf32>
  %12 = stablehlo.slice %11 [0:0, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %13 = stablehlo.slice %4 [2:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %14 = stablehlo.slice %6 [2:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %15 = stablehlo.multiply %12, %13 : tensor<0x3xf32>
  %16 = stablehlo.add %15, %14 : tensor<0x3xf32>
  %17 = stablehlo.slice %6 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %18 = stablehlo.concatenate %17, %16, dim = 0 : (tensor<1x3xf32>, tensor<0x3xf32>) -> tensor<1x3xf32>
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %19 = stablehlo.pad %18, %cst, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %20 = stablehlo.pad %11, %cst_0, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %21 = stablehlo.add %19, %20 : tensor<2x3xf32>
  %22 = stablehlo.slice %21 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %23 = stablehlo.slice %a [2:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %24 = stablehlo.slice %b [2:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %25 = stablehlo.multiply %22, %23 : tensor<1x3xf32>
  %26 = stablehlo.add %25, %24 : tensor<1x3xf32>
  %27 = stablehlo.slice %b [0:1, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %28 = stablehlo.concatenate %27, %26, dim = 0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %29 = stablehlo.pad %28, %cst_1, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %30 = stablehlo.pad %21, %cst_2, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %31 = stablehlo.add %29, %30 : tensor<4x3xf32>
  %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %32 = stablehlo.pad %c, %cst_3, low = [-1, 0], high = [0, 0], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %33 = stablehlo.slice %32 [0:3:2, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %34 = stablehlo.pad %c, %cst_4, low = [0, 0], high = [-1, 0], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %35 = stablehlo.slice %34 [0:3:2, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  %36 = stablehlo.slice %35 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %37 = stablehlo.slice %35 [1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %38 = stablehlo.pad %36, %cst_5, low = [0, 0], high = [3, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %39 = stablehlo.multiply %22, %37 : tensor<1x3xf32>
  %40 = stablehlo.multiply %37, %23 : tensor<1x3xf32>
  %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %41 = stablehlo.pad %37, %cst_6, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %42 = stablehlo.add %38, %41 : tensor<4x3xf32>
  %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %43 = stablehlo.pad %39, %cst_7, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %44 = stablehlo.pad %40, %cst_8, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %45 = stablehlo.add %33, %44 : tensor<2x3xf32>
  %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %46 = stablehlo.pad %45, %cst_9, low = [-1, 0], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %47 = stablehlo.slice %46 [0:1:2, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %48 = stablehlo.pad %45, %cst_10, low = [0, 0], high = [-1, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %49 = stablehlo.slice %48 [0:1:2, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %50 = stablehlo.slice %49 [0:1, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %51 = stablehlo.slice %49 [1:1, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %52 = stablehlo.pad %50, %cst_11, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %53 = stablehlo.multiply %12, %51 : tensor<0x3xf32>
  %54 = stablehlo.multiply %51, %13 : tensor<0x3xf32>
  %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %55 = stablehlo.pad %51, %cst_12, low = [2, 0], high = [0, 0], interior = [1, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %56 = stablehlo.add %52, %55 : tensor<2x3xf32>
  %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %57 = stablehlo.pad %53, %cst_13, low = [2, 0], high = [0, 0], interior = [1, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %58 = stablehlo.pad %54, %cst_14, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %59 = stablehlo.add %47, %58 : tensor<1x3xf32>
  %60 = stablehlo.multiply %7, %59 : tensor<1x3xf32>
  %61 = stablehlo.multiply %59, %8 : tensor<1x3xf32>
  %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %62 = stablehlo.pad %59, %cst_15, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %63 = stablehlo.add %56, %62 : tensor<2x3xf32>
  %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %64 = stablehlo.pad %60, %cst_16, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %65 = stablehlo.add %57, %64 : tensor<2x3xf32>
  %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %66 = stablehlo.pad %61, %cst_17, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %67 = stablehlo.add %63, %66 : tensor<2x3xf32>
  %68 = stablehlo.multiply %1, %67 : tensor<2x3xf32>
  %69 = stablehlo.multiply %67, %2 : tensor<2x3xf32>
  %70 = stablehlo.multiply %0, %65 : tensor<2x3xf32>
  %71 = stablehlo.add %68, %70 : tensor<2x3xf32>
  %72 = stablehlo.multiply %65, %2 : tensor<2x3xf32>
  %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %73 = stablehlo.pad %67, %cst_18, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %74 = stablehlo.add %42, %73 : tensor<4x3xf32>
  %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %75 = stablehlo.pad %71, %cst_19, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %76 = stablehlo.add %43, %75 : tensor<4x3xf32>
  %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %77 = stablehlo.pad %69, %cst_20, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %78 = stablehlo.add %74, %77 : tensor<4x3xf32>
  %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %79 = stablehlo.pad %72, %cst_21, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %80 = stablehlo.add %76, %79 : tensor<4x3xf32>
  return %31, %80, %78 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}

// -----

// Where an operand is broadcast to the others as it is combined, its gradient is a sum, which comes
// last; the scan passes on the narrow products.

// CHECK-LABEL: func.func @gradient_of_a_broadcast_scan
// CHECK: %[[SCAN:.*]]:2 = "dtensor.scan"(
// CHECK: reverse = 0 : i64
// CHECK: %[[BACK:.*]]:2 = "dtensor.scan"(%arg0, %{{.*}}) ({
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x1xf32>, %[[H:.*]]: tensor<2x3xf32>, %[[NEXT_A:.*]]: tensor<2x1xf32>, %[[NEXT_H:.*]]: tensor<2x3xf32>):
// CHECK: %[[BOTH:.*]] = stablehlo.multiply %[[NEXT_A]], %[[A]]
// CHECK: %[[WIDE:.*]] = stablehlo.broadcast_in_dim %[[NEXT_A]], dims = [0, 1]
// CHECK: %[[PART:.*]] = stablehlo.multiply %[[WIDE]], %[[H]]
// CHECK: }) {dim = 0 : i64, reverse = 1 : i64}
// CHECK: %[[DB:.*]] = stablehlo.add %arg2,
// CHECK: %[[WIDE_DA:.*]] = stablehlo.select
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[WIDE_DA]] init: %{{.*}}) applies stablehlo.add across dimensions = [1]
// CHECK: %[[DA:.*]] = stablehlo.reshape %[[SUM]] : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK: return %[[SCAN]]#{{[01]}}, %[[DA]], %[[DB]]
func.func @gradient_of_a_broadcast_scan(%a: tensor<4x1xf32>, %b: tensor<4x3xf32>, %c: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x3xf32>) {
  %0 = stablehlo.slice %a [0:3:2, 0:1] : (tensor<4x1xf32>) -> tensor<2x1xf32>
  %1 = stablehlo.slice %b [0:3:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %a [1:4:2, 0:1] : (tensor<4x1xf32>) -> tensor<2x1xf32>
  %3 = stablehlo.slice %b [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.multiply %0, %2 : tensor<2x1xf32>
  %5 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
  %6 = stablehlo.multiply %1, %5 : tensor<2x3xf32>
  %7 = stablehlo.add %6, %3 : tensor<2x3xf32>
  %8 = stablehlo.slice %7 [0:1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %9 = stablehlo.slice %4 [1:2:2, 0:1] : (tensor<2x1xf32>) -> tensor<1x1xf32>
  %10 = stablehlo.slice %7 [1:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %11 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %12 = stablehlo.multiply %8, %11 : tensor<1x3xf32>
  %13 = stablehlo.add %12, %10 : tensor<1x3xf32>
  %14 = stablehlo.slice %13 [0:0, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %15 = stablehlo.slice %4 [2:2:2, 0:1] : (tensor<2x1xf32>) -> tensor<0x1xf32>
  %16 = stablehlo.slice %7 [2:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %17 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<0x1xf32>) -> tensor<0x3xf32>
  %18 = stablehlo.multiply %14, %17 : tensor<0x3xf32>
  %19 = stablehlo.add %18, %16 : tensor<0x3xf32>
  %20 = stablehlo.slice %7 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %21 = stablehlo.concatenate %20, %19, dim = 0 : (tensor<1x3xf32>, tensor<0x3xf32>) -> tensor<1x3xf32>
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %22 = stablehlo.pad %21, %cst, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %23 = stablehlo.pad %13, %cst_0, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %24 = stablehlo.add %22, %23 : tensor<2x3xf32>
  %25 = stablehlo.slice %24 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %26 = stablehlo.slice %a [2:4:2, 0:1] : (tensor<4x1xf32>) -> tensor<1x1xf32>
  %27 = stablehlo.slice %b [2:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %28 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %29 = stablehlo.multiply %25, %28 : tensor<1x3xf32>
  %30 = stablehlo.add %29, %27 : tensor<1x3xf32>
  %31 = stablehlo.slice %b [0:1, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %32 = stablehlo.concatenate %31, %30, dim = 0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %33 = stablehlo.pad %32, %cst_1, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %34 = stablehlo.pad %24, %cst_2, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %35 = stablehlo.add %33, %34 : tensor<4x3xf32>
  %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %36 = stablehlo.pad %c, %cst_3, low = [-1, 0], high = [0, 0], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %37 = stablehlo.slice %36 [0:3:2, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %38 = stablehlo.pad %c, %cst_4, low = [0, 0], high = [-1, 0], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %39 = stablehlo.slice %38 [0:3:2, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  %40 = stablehlo.slice %39 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %41 = stablehlo.slice %39 [1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %42 = stablehlo.pad %40, %cst_5, low = [0, 0], high = [3, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %43 = stablehlo.multiply %25, %41 : tensor<1x3xf32>
  %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %44 = stablehlo.reduce(%43 init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
  %45 = stablehlo.reshape %44 : (tensor<1xf32>) -> tensor<1x1xf32>
  %46 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %47 = stablehlo.multiply %41, %46 : tensor<1x3xf32>
  %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %48 = stablehlo.pad %41, %cst_7, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %49 = stablehlo.add %42, %48 : tensor<4x3xf32>
  %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %50 = stablehlo.pad %45, %cst_8, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<1x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %51 = stablehlo.pad %47, %cst_9, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %52 = stablehlo.add %37, %51 : tensor<2x3xf32>
  %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %53 = stablehlo.pad %52, %cst_10, low = [-1, 0], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %54 = stablehlo.slice %53 [0:1:2, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %55 = stablehlo.pad %52, %cst_11, low = [0, 0], high = [-1, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %56 = stablehlo.slice %55 [0:1:2, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %57 = stablehlo.slice %56 [0:1, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %58 = stablehlo.slice %56 [1:1, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %59 = stablehlo.pad %57, %cst_12, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %60 = stablehlo.multiply %14, %58 : tensor<0x3xf32>
  %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %61 = stablehlo.reduce(%60 init: %cst_13) applies stablehlo.add across dimensions = [1] : (tensor<0x3xf32>, tensor<f32>) -> tensor<0xf32>
  %62 = stablehlo.reshape %61 : (tensor<0xf32>) -> tensor<0x1xf32>
  %63 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<0x1xf32>) -> tensor<0x3xf32>
  %64 = stablehlo.multiply %58, %63 : tensor<0x3xf32>
  %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %65 = stablehlo.pad %58, %cst_14, low = [2, 0], high = [0, 0], interior = [1, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %66 = stablehlo.add %59, %65 : tensor<2x3xf32>
  %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %67 = stablehlo.pad %62, %cst_15, low = [2, 0], high = [0, 0], interior = [1, 0] : (tensor<0x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %68 = stablehlo.pad %64, %cst_16, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %69 = stablehlo.add %54, %68 : tensor<1x3xf32>
  %70 = stablehlo.multiply %8, %69 : tensor<1x3xf32>
  %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %71 = stablehlo.reduce(%70 init: %cst_17) applies stablehlo.add across dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
  %72 = stablehlo.reshape %71 : (tensor<1xf32>) -> tensor<1x1xf32>
  %73 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %74 = stablehlo.multiply %69, %73 : tensor<1x3xf32>
  %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %75 = stablehlo.pad %69, %cst_18, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %76 = stablehlo.add %66, %75 : tensor<2x3xf32>
  %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %77 = stablehlo.pad %72, %cst_19, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %78 = stablehlo.add %67, %77 : tensor<2x1xf32>
  %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %79 = stablehlo.pad %74, %cst_20, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %80 = stablehlo.add %76, %79 : tensor<2x3xf32>
  %81 = stablehlo.multiply %1, %80 : tensor<2x3xf32>
  %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %82 = stablehlo.reduce(%81 init: %cst_21) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %83 = stablehlo.reshape %82 : (tensor<2xf32>) -> tensor<2x1xf32>
  %84 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
  %85 = stablehlo.multiply %80, %84 : tensor<2x3xf32>
  %86 = stablehlo.multiply %0, %78 : tensor<2x1xf32>
  %87 = stablehlo.add %83, %86 : tensor<2x1xf32>
  %88 = stablehlo.multiply %78, %2 : tensor<2x1xf32>
  %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %89 = stablehlo.pad %80, %cst_22, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %90 = stablehlo.add %49, %89 : tensor<4x3xf32>
  %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %91 = stablehlo.pad %87, %cst_23, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %92 = stablehlo.add %50, %91 : tensor<4x1xf32>
  %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %93 = stablehlo.pad %85, %cst_24, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %94 = stablehlo.add %90, %93 : tensor<4x3xf32>
  %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %95 = stablehlo.pad %88, %cst_25, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %96 = stablehlo.add %92, %95 : tensor<4x1xf32>
  return %35, %96, %94 : tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x3xf32>
}

// -----

// Here one of the sums is multiplied by itself: what that gives is no gradient.

// CHECK-LABEL: func.func @squares_of_sums
// CHECK-NOT: tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK: %[[SUM:.*]] = stablehlo.reshape %{{.*}} : (tensor<1xf32>) -> tensor<1x1xf32>
// CHECK: stablehlo.multiply %[[SUM]], %[[SUM]]
func.func @squares_of_sums(%a: tensor<4x1xf32>, %b: tensor<4x3xf32>, %c: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x3xf32>) {
  %0 = stablehlo.slice %a [0:3:2, 0:1] : (tensor<4x1xf32>) -> tensor<2x1xf32>
  %1 = stablehlo.slice %b [0:3:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %a [1:4:2, 0:1] : (tensor<4x1xf32>) -> tensor<2x1xf32>
  %3 = stablehlo.slice %b [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.multiply %0, %2 : tensor<2x1xf32>
  %5 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
  %6 = stablehlo.multiply %1, %5 : tensor<2x3xf32>
  %7 = stablehlo.add %6, %3 : tensor<2x3xf32>
  %8 = stablehlo.slice %7 [0:1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %9 = stablehlo.slice %4 [1:2:2, 0:1] : (tensor<2x1xf32>) -> tensor<1x1xf32>
  %10 = stablehlo.slice %7 [1:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %11 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %12 = stablehlo.multiply %8, %11 : tensor<1x3xf32>
  %13 = stablehlo.add %12, %10 : tensor<1x3xf32>
  %14 = stablehlo.slice %13 [0:0, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %15 = stablehlo.slice %4 [2:2:2, 0:1] : (tensor<2x1xf32>) -> tensor<0x1xf32>
  %16 = stablehlo.slice %7 [2:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %17 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<0x1xf32>) -> tensor<0x3xf32>
  %18 = stablehlo.multiply %14, %17 : tensor<0x3xf32>
  %19 = stablehlo.add %18, %16 : tensor<0x3xf32>
  %20 = stablehlo.slice %7 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %21 = stablehlo.concatenate %20, %19, dim = 0 : (tensor<1x3xf32>, tensor<0x3xf32>) -> tensor<1x3xf32>
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %22 = stablehlo.pad %21, %cst, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %23 = stablehlo.pad %13, %cst_0, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %24 = stablehlo.add %22, %23 : tensor<2x3xf32>
  %25 = stablehlo.slice %24 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %26 = stablehlo.slice %a [2:4:2, 0:1] : (tensor<4x1xf32>) -> tensor<1x1xf32>
  %27 = stablehlo.slice %b [2:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %28 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %29 = stablehlo.multiply %25, %28 : tensor<1x3xf32>
  %30 = stablehlo.add %29, %27 : tensor<1x3xf32>
  %31 = stablehlo.slice %b [0:1, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %32 = stablehlo.concatenate %31, %30, dim = 0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %33 = stablehlo.pad %32, %cst_1, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %34 = stablehlo.pad %24, %cst_2, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %35 = stablehlo.add %33, %34 : tensor<4x3xf32>
  %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %36 = stablehlo.pad %c, %cst_3, low = [-1, 0], high = [0, 0], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %37 = stablehlo.slice %36 [0:3:2, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %38 = stablehlo.pad %c, %cst_4, low = [0, 0], high = [-1, 0], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %39 = stablehlo.slice %38 [0:3:2, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  %40 = stablehlo.slice %39 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %41 = stablehlo.slice %39 [1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %42 = stablehlo.pad %40, %cst_5, low = [0, 0], high = [3, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %43 = stablehlo.multiply %25, %41 : tensor<1x3xf32>
  %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %44 = stablehlo.reduce(%43 init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
  %45 = stablehlo.reshape %44 : (tensor<1xf32>) -> tensor<1x1xf32>
  %squared = stablehlo.multiply %45, %45 : tensor<1x1xf32>
  %46 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %47 = stablehlo.multiply %41, %46 : tensor<1x3xf32>
  %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %48 = stablehlo.pad %41, %cst_7, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %49 = stablehlo.add %42, %48 : tensor<4x3xf32>
  %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %50 = stablehlo.pad %squared, %cst_8, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<1x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %51 = stablehlo.pad %47, %cst_9, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %52 = stablehlo.add %37, %51 : tensor<2x3xf32>
  %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %53 = stablehlo.pad %52, %cst_10, low = [-1, 0], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %54 = stablehlo.slice %53 [0:1:2, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %55 = stablehlo.pad %52, %cst_11, low = [0, 0], high = [-1, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %56 = stablehlo.slice %55 [0:1:2, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %57 = stablehlo.slice %56 [0:1, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %58 = stablehlo.slice %56 [1:1, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %59 = stablehlo.pad %57, %cst_12, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %60 = stablehlo.multiply %14, %58 : tensor<0x3xf32>
  %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %61 = stablehlo.reduce(%60 init: %cst_13) applies stablehlo.add across dimensions = [1] : (tensor<0x3xf32>, tensor<f32>) -> tensor<0xf32>
  %62 = stablehlo.reshape %61 : (tensor<0xf32>) -> tensor<0x1xf32>
  %63 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<0x1xf32>) -> tensor<0x3xf32>
  %64 = stablehlo.multiply %58, %63 : tensor<0x3xf32>
  %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %65 = stablehlo.pad %58, %cst_14, low = [2, 0], high = [0, 0], interior = [1, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %66 = stablehlo.add %59, %65 : tensor<2x3xf32>
  %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %67 = stablehlo.pad %62, %cst_15, low = [2, 0], high = [0, 0], interior = [1, 0] : (tensor<0x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %68 = stablehlo.pad %64, %cst_16, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %69 = stablehlo.add %54, %68 : tensor<1x3xf32>
  %70 = stablehlo.multiply %8, %69 : tensor<1x3xf32>
  %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %71 = stablehlo.reduce(%70 init: %cst_17) applies stablehlo.add across dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
  %72 = stablehlo.reshape %71 : (tensor<1xf32>) -> tensor<1x1xf32>
  %73 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %74 = stablehlo.multiply %69, %73 : tensor<1x3xf32>
  %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %75 = stablehlo.pad %69, %cst_18, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %76 = stablehlo.add %66, %75 : tensor<2x3xf32>
  %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %77 = stablehlo.pad %72, %cst_19, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %78 = stablehlo.add %67, %77 : tensor<2x1xf32>
  %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %79 = stablehlo.pad %74, %cst_20, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %80 = stablehlo.add %76, %79 : tensor<2x3xf32>
  %81 = stablehlo.multiply %1, %80 : tensor<2x3xf32>
  %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %82 = stablehlo.reduce(%81 init: %cst_21) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %83 = stablehlo.reshape %82 : (tensor<2xf32>) -> tensor<2x1xf32>
  %84 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
  %85 = stablehlo.multiply %80, %84 : tensor<2x3xf32>
  %86 = stablehlo.multiply %0, %78 : tensor<2x1xf32>
  %87 = stablehlo.add %83, %86 : tensor<2x1xf32>
  %88 = stablehlo.multiply %78, %2 : tensor<2x1xf32>
  %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %89 = stablehlo.pad %80, %cst_22, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %90 = stablehlo.add %49, %89 : tensor<4x3xf32>
  %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %91 = stablehlo.pad %87, %cst_23, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %92 = stablehlo.add %50, %91 : tensor<4x1xf32>
  %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %93 = stablehlo.pad %85, %cst_24, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %94 = stablehlo.add %90, %93 : tensor<4x3xf32>
  %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %95 = stablehlo.pad %88, %cst_25, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %96 = stablehlo.add %92, %95 : tensor<4x1xf32>
  return %35, %96, %94 : tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x3xf32>
}

// -----

// Nor is this, where the sum is over the first two of three columns.

// CHECK-LABEL: func.func @sum_of_some
// CHECK-NOT: tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK: (tensor<1x2xf32>, tensor<f32>) -> tensor<1xf32>
func.func @sum_of_some(%a: tensor<4x1xf32>, %b: tensor<4x3xf32>, %c: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x3xf32>) {
  %0 = stablehlo.slice %a [0:3:2, 0:1] : (tensor<4x1xf32>) -> tensor<2x1xf32>
  %1 = stablehlo.slice %b [0:3:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %a [1:4:2, 0:1] : (tensor<4x1xf32>) -> tensor<2x1xf32>
  %3 = stablehlo.slice %b [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.multiply %0, %2 : tensor<2x1xf32>
  %5 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
  %6 = stablehlo.multiply %1, %5 : tensor<2x3xf32>
  %7 = stablehlo.add %6, %3 : tensor<2x3xf32>
  %8 = stablehlo.slice %7 [0:1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %9 = stablehlo.slice %4 [1:2:2, 0:1] : (tensor<2x1xf32>) -> tensor<1x1xf32>
  %10 = stablehlo.slice %7 [1:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %11 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %12 = stablehlo.multiply %8, %11 : tensor<1x3xf32>
  %13 = stablehlo.add %12, %10 : tensor<1x3xf32>
  %14 = stablehlo.slice %13 [0:0, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %15 = stablehlo.slice %4 [2:2:2, 0:1] : (tensor<2x1xf32>) -> tensor<0x1xf32>
  %16 = stablehlo.slice %7 [2:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %17 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<0x1xf32>) -> tensor<0x3xf32>
  %18 = stablehlo.multiply %14, %17 : tensor<0x3xf32>
  %19 = stablehlo.add %18, %16 : tensor<0x3xf32>
  %20 = stablehlo.slice %7 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %21 = stablehlo.concatenate %20, %19, dim = 0 : (tensor<1x3xf32>, tensor<0x3xf32>) -> tensor<1x3xf32>
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %22 = stablehlo.pad %21, %cst, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %23 = stablehlo.pad %13, %cst_0, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %24 = stablehlo.add %22, %23 : tensor<2x3xf32>
  %25 = stablehlo.slice %24 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %26 = stablehlo.slice %a [2:4:2, 0:1] : (tensor<4x1xf32>) -> tensor<1x1xf32>
  %27 = stablehlo.slice %b [2:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %28 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %29 = stablehlo.multiply %25, %28 : tensor<1x3xf32>
  %30 = stablehlo.add %29, %27 : tensor<1x3xf32>
  %31 = stablehlo.slice %b [0:1, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %32 = stablehlo.concatenate %31, %30, dim = 0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %33 = stablehlo.pad %32, %cst_1, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %34 = stablehlo.pad %24, %cst_2, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %35 = stablehlo.add %33, %34 : tensor<4x3xf32>
  %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %36 = stablehlo.pad %c, %cst_3, low = [-1, 0], high = [0, 0], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %37 = stablehlo.slice %36 [0:3:2, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %38 = stablehlo.pad %c, %cst_4, low = [0, 0], high = [-1, 0], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %39 = stablehlo.slice %38 [0:3:2, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  %40 = stablehlo.slice %39 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %41 = stablehlo.slice %39 [1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %42 = stablehlo.pad %40, %cst_5, low = [0, 0], high = [3, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %43 = stablehlo.multiply %25, %41 : tensor<1x3xf32>
  %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %some = stablehlo.slice %43 [0:1, 0:2] : (tensor<1x3xf32>) -> tensor<1x2xf32>
  %44 = stablehlo.reduce(%some init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<1x2xf32>, tensor<f32>) -> tensor<1xf32>
  %45 = stablehlo.reshape %44 : (tensor<1xf32>) -> tensor<1x1xf32>
  %46 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %47 = stablehlo.multiply %41, %46 : tensor<1x3xf32>
  %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %48 = stablehlo.pad %41, %cst_7, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %49 = stablehlo.add %42, %48 : tensor<4x3xf32>
  %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %50 = stablehlo.pad %45, %cst_8, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<1x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %51 = stablehlo.pad %47, %cst_9, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %52 = stablehlo.add %37, %51 : tensor<2x3xf32>
  %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %53 = stablehlo.pad %52, %cst_10, low = [-1, 0], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %54 = stablehlo.slice %53 [0:1:2, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %55 = stablehlo.pad %52, %cst_11, low = [0, 0], high = [-1, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %56 = stablehlo.slice %55 [0:1:2, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %57 = stablehlo.slice %56 [0:1, 0:3] : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %58 = stablehlo.slice %56 [1:1, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %59 = stablehlo.pad %57, %cst_12, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %60 = stablehlo.multiply %14, %58 : tensor<0x3xf32>
  %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %61 = stablehlo.reduce(%60 init: %cst_13) applies stablehlo.add across dimensions = [1] : (tensor<0x3xf32>, tensor<f32>) -> tensor<0xf32>
  %62 = stablehlo.reshape %61 : (tensor<0xf32>) -> tensor<0x1xf32>
  %63 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<0x1xf32>) -> tensor<0x3xf32>
  %64 = stablehlo.multiply %58, %63 : tensor<0x3xf32>
  %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %65 = stablehlo.pad %58, %cst_14, low = [2, 0], high = [0, 0], interior = [1, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %66 = stablehlo.add %59, %65 : tensor<2x3xf32>
  %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %67 = stablehlo.pad %62, %cst_15, low = [2, 0], high = [0, 0], interior = [1, 0] : (tensor<0x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %68 = stablehlo.pad %64, %cst_16, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %69 = stablehlo.add %54, %68 : tensor<1x3xf32>
  %70 = stablehlo.multiply %8, %69 : tensor<1x3xf32>
  %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %71 = stablehlo.reduce(%70 init: %cst_17) applies stablehlo.add across dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
  %72 = stablehlo.reshape %71 : (tensor<1xf32>) -> tensor<1x1xf32>
  %73 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
  %74 = stablehlo.multiply %69, %73 : tensor<1x3xf32>
  %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %75 = stablehlo.pad %69, %cst_18, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %76 = stablehlo.add %66, %75 : tensor<2x3xf32>
  %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %77 = stablehlo.pad %72, %cst_19, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %78 = stablehlo.add %67, %77 : tensor<2x1xf32>
  %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %79 = stablehlo.pad %74, %cst_20, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %80 = stablehlo.add %76, %79 : tensor<2x3xf32>
  %81 = stablehlo.multiply %1, %80 : tensor<2x3xf32>
  %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %82 = stablehlo.reduce(%81 init: %cst_21) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %83 = stablehlo.reshape %82 : (tensor<2xf32>) -> tensor<2x1xf32>
  %84 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
  %85 = stablehlo.multiply %80, %84 : tensor<2x3xf32>
  %86 = stablehlo.multiply %0, %78 : tensor<2x1xf32>
  %87 = stablehlo.add %83, %86 : tensor<2x1xf32>
  %88 = stablehlo.multiply %78, %2 : tensor<2x1xf32>
  %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %89 = stablehlo.pad %80, %cst_22, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %90 = stablehlo.add %49, %89 : tensor<4x3xf32>
  %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %91 = stablehlo.pad %87, %cst_23, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %92 = stablehlo.add %50, %91 : tensor<4x1xf32>
  %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %93 = stablehlo.pad %85, %cst_24, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %94 = stablehlo.add %90, %93 : tensor<4x3xf32>
  %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %95 = stablehlo.pad %88, %cst_25, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %96 = stablehlo.add %92, %95 : tensor<4x1xf32>
  return %35, %96, %94 : tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x3xf32>
}
