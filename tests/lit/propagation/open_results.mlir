// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate | filecheck %s

// A value is returned twice, and one result says where an axis has to be. They look alike, but are
// planned apart: the other one may be whole along that dimension, this one may not.

// CHECK: func.func @main
// CHECK-SAME: -> (tensor<8x8xf32> {{.*}}, tensor<8x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>})
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>},
                %c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>},
                %d: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>},
                %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>})
    -> (tensor<8x8xf32>, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}) {
  %0 = stablehlo.add %a, %b : tensor<8x8xf32>
  %1 = stablehlo.multiply %c, %d : tensor<8x8xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x8xf32>
  return %2, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}
