module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "mesh"} : () -> ()
  func.func public @main(%arg0: tensor<8x12x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}, {}]>}) -> (tensor<8x12x12xf32> {jax.result_info = "result.U"}, tensor<8x12xf32> {jax.result_info = "result.S"}, tensor<8x12x12xf32> {jax.result_info = "result.Vh"}) {
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %c = stablehlo.constant dense<false> : tensor<i1>
    %c_0 = stablehlo.constant dense<true> : tensor<i1>
    %c_1 = stablehlo.constant dense<1> : tensor<i32>
    %c_2 = stablehlo.constant dense<-1> : tensor<i32>
    %cst_3 = stablehlo.constant dense<1.43051147E-6> : tensor<f32>
    %c_4 = stablehlo.constant dense<12> : tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_7 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %c_8 = stablehlo.constant dense<[12, 0]> : tensor<2xi32>
    %c_9 = stablehlo.constant dense<2147483647> : tensor<i32>
    %cst_10 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %cst_11 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
    %cst_12 = stablehlo.constant dense<2.66666675> : tensor<f32>
    %cst_13 = stablehlo.constant dense<0.333333343> : tensor<f32>
    %cst_14 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %c_15 = stablehlo.constant dense<10> : tensor<i32>
    %c_16 = stablehlo.constant dense<4> : tensor<i32>
    %c_17 = stablehlo.constant dense<2> : tensor<i32>
    %cst_18 = stablehlo.constant dense<5.96046448E-7> : tensor<f32>
    %cst_19 = stablehlo.constant dense<[[1.9999615, 52016.457, 0.999961555], [1.92178214, 24.0162086, 0.920118272]]> : tensor<2x3xf32>
    %cst_20 = stablehlo.constant dense<[[3.74143839, 5.72027779, 0.443261355], [2.67155766, 3.01101112, 0.333944082]]> : tensor<2x3xf32>
    %cst_21 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.abs %arg0 : tensor<8x12x12xf32>
    %1 = stablehlo.reduce(%0 init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<8x12x12xf32>, tensor<f32>) -> tensor<8x12xf32>
    %2 = stablehlo.reduce(%1 init: %cst_21) applies stablehlo.maximum across dimensions = [1] : (tensor<8x12xf32>, tensor<f32>) -> tensor<8xf32>
    %3 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %4 = stablehlo.maximum %3, %2 : tensor<8xf32>
    %5 = stablehlo.reduce(%0 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<8x12x12xf32>, tensor<f32>) -> tensor<8x12xf32>
    %6 = stablehlo.reduce(%5 init: %cst_21) applies stablehlo.maximum across dimensions = [1] : (tensor<8x12xf32>, tensor<f32>) -> tensor<8xf32>
    %7 = stablehlo.maximum %3, %6 : tensor<8xf32>
    %8 = stablehlo.rsqrt %4 : tensor<8xf32>
    %9 = stablehlo.rsqrt %7 : tensor<8xf32>
    %10 = stablehlo.multiply %8, %9 : tensor<8xf32>
    %11 = stablehlo.compare EQ, %4, %3, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %12 = stablehlo.convert %c_1 : (tensor<i32>) -> tensor<f32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %14 = stablehlo.select %11, %13, %10 : tensor<8xi1>, tensor<8xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<8xf32>) -> tensor<8x1x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<8x1x1xf32>) -> tensor<8x12x12xf32>
    %17 = stablehlo.multiply %arg0, %16 : tensor<8x12x12xf32>
    %18 = stablehlo.cbrt %cst_18 : tensor<f32>
    %19:5 = stablehlo.while(%iterArg = %cst_19, %iterArg_22 = %c_5, %iterArg_23 = %c_5, %iterArg_24 = %17, %iterArg_25 = %c_0) : tensor<2x3xf32>, tensor<i32>, tensor<i32>, tensor<8x12x12xf32>, tensor<i1>
    cond {
      %71 = stablehlo.compare LT, %iterArg_22, %c_17, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %71 : tensor<i1>
    } do {
      %71 = stablehlo.add %iterArg_23, %c_1 : tensor<i32>
      %72 = stablehlo.compare LT, %iterArg_23, %c_5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %73 = stablehlo.convert %iterArg_23 : tensor<i32>
      %74 = stablehlo.add %73, %c_17 : tensor<i32>
      %75 = stablehlo.select %72, %74, %iterArg_23 : tensor<i1>, tensor<i32>
      %76 = stablehlo.dynamic_slice %iterArg, %75, %c_5, sizes = [1, 3] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %77 = stablehlo.reshape %76 : (tensor<1x3xf32>) -> tensor<3xf32>
      %78 = stablehlo.slice %77 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
      %79 = stablehlo.reshape %78 : (tensor<1xf32>) -> tensor<f32>
      %80 = stablehlo.slice %77 [1:2] : (tensor<3xf32>) -> tensor<1xf32>
      %81 = stablehlo.reshape %80 : (tensor<1xf32>) -> tensor<f32>
      %82 = stablehlo.slice %77 [2:3] : (tensor<3xf32>) -> tensor<1xf32>
      %83 = stablehlo.reshape %82 : (tensor<1xf32>) -> tensor<f32>
      %84 = stablehlo.broadcast_in_dim %81, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %85 = stablehlo.multiply %84, %iterArg_24 : tensor<8x12x12xf32>
      %86 = stablehlo.iota dim = 0 : tensor<12x12xi32>
      %87 = stablehlo.iota dim = 1 : tensor<12x12xi32>
      %88 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<12x12xi32>
      %89 = stablehlo.add %86, %88 : tensor<12x12xi32>
      %90 = stablehlo.compare EQ, %89, %87, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %91 = stablehlo.convert %90 : (tensor<12x12xi1>) -> tensor<12x12xf32>
      %92 = stablehlo.pad %85, %cst_6, low = [0, 0, 0], high = [0, 12, 0], interior = [0, 0, 0] : (tensor<8x12x12xf32>, tensor<f32>) -> tensor<8x24x12xf32>
      %93 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<1xi32>
      %94 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<1xi32>
      %95 = stablehlo.concatenate %93, %94, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %96 = stablehlo.broadcast_in_dim %91, dims = [1, 2] : (tensor<12x12xf32>) -> tensor<8x12x12xf32>
      %97 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i32>) -> tensor<2xi32>
      %98 = stablehlo.minimum %c_8, %97 : tensor<2xi32>
      %99 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<2xi32>
      %100 = stablehlo.clamp %99, %95, %98 : tensor<2xi32>
      %101 = "stablehlo.scatter"(%92, %100, %96) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1, 2], scatter_dims_to_operand_dims = [1, 2]>, unique_indices = true}> ({
      ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
        stablehlo.return %arg2 : tensor<f32>
      }) : (tensor<8x24x12xf32>, tensor<2xi32>, tensor<8x12x12xf32>) -> tensor<8x24x12xf32>
      %102:2 = stablehlo.custom_call @Qr(%101) {backend_config = ""} : (tensor<8x24x12xf32>) -> (tensor<8x24x12xf32>, tensor<8x12xf32>)
      %103 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%102#0, %102#1) {backend_config = ""} : (tensor<8x24x12xf32>, tensor<8x12xf32>) -> tensor<8x24x12xf32>
      %104 = stablehlo.slice %103 [0:8, 0:12, 0:12] : (tensor<8x24x12xf32>) -> tensor<8x12x12xf32>
      %105 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<12x12xi32>
      %106 = stablehlo.compare LT, %86, %105, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %107 = stablehlo.compare LT, %87, %105, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %108 = stablehlo.and %106, %107 : tensor<12x12xi1>
      %109 = stablehlo.convert %c_5 : (tensor<i32>) -> tensor<f32>
      %110 = stablehlo.broadcast_in_dim %109, dims = [] : (tensor<f32>) -> tensor<12x12xf32>
      %111 = stablehlo.broadcast_in_dim %108, dims = [1, 2] : (tensor<12x12xi1>) -> tensor<8x12x12xi1>
      %112 = stablehlo.broadcast_in_dim %110, dims = [1, 2] : (tensor<12x12xf32>) -> tensor<8x12x12xf32>
      %113 = stablehlo.select %111, %104, %112 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %114 = "stablehlo.gather"(%103, %95) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1, 2], start_index_map = [1, 2]>, indices_are_sorted = true, slice_sizes = array<i64: 8, 12, 12>}> : (tensor<8x24x12xf32>, tensor<2xi32>) -> tensor<8x12x12xf32>
      %115 = stablehlo.select %111, %114, %112 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %116 = stablehlo.transpose %115, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %117 = stablehlo.broadcast_in_dim %83, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %118 = stablehlo.multiply %117, %iterArg_24 : tensor<8x12x12xf32>
      %119 = stablehlo.dot_general %113, %116, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %120 = stablehlo.broadcast_in_dim %79, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %121 = stablehlo.multiply %120, %119 : tensor<8x12x12xf32>
      %122 = stablehlo.add %118, %121 : tensor<8x12x12xf32>
      %123 = stablehlo.add %iterArg_22, %c_1 : tensor<i32>
      stablehlo.return %iterArg, %123, %71, %122, %c_0 : tensor<2x3xf32>, tensor<i32>, tensor<i32>, tensor<8x12x12xf32>, tensor<i1>
    }
    %20 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<8xi1>
    %21:6 = stablehlo.while(%iterArg = %cst_20, %iterArg_22 = %18, %iterArg_23 = %c_5, %iterArg_24 = %c_5, %iterArg_25 = %19#3, %iterArg_26 = %20) : tensor<2x3xf32>, tensor<f32>, tensor<i32>, tensor<i32>, tensor<8x12x12xf32>, tensor<8xi1>
    cond {
      %71 = stablehlo.compare LT, %iterArg_23, %c_17, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %71 : tensor<i1>
    } do {
      %71 = stablehlo.add %iterArg_24, %c_1 : tensor<i32>
      %72 = stablehlo.compare LT, %iterArg_24, %c_5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %73 = stablehlo.convert %iterArg_24 : tensor<i32>
      %74 = stablehlo.add %73, %c_17 : tensor<i32>
      %75 = stablehlo.select %72, %74, %iterArg_24 : tensor<i1>, tensor<i32>
      %76 = stablehlo.dynamic_slice %iterArg, %75, %c_5, sizes = [1, 3] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %77 = stablehlo.reshape %76 : (tensor<1x3xf32>) -> tensor<3xf32>
      %78 = stablehlo.slice %77 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
      %79 = stablehlo.reshape %78 : (tensor<1xf32>) -> tensor<f32>
      %80 = stablehlo.slice %77 [1:2] : (tensor<3xf32>) -> tensor<1xf32>
      %81 = stablehlo.reshape %80 : (tensor<1xf32>) -> tensor<f32>
      %82 = stablehlo.slice %77 [2:3] : (tensor<3xf32>) -> tensor<1xf32>
      %83 = stablehlo.reshape %82 : (tensor<1xf32>) -> tensor<f32>
      %84 = stablehlo.transpose %iterArg_25, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %85 = stablehlo.dot_general %84, %iterArg_25, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %86 = stablehlo.broadcast_in_dim %81, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %87 = stablehlo.multiply %86, %85 : tensor<8x12x12xf32>
      %88 = stablehlo.iota dim = 0 : tensor<12x12xi32>
      %89 = stablehlo.iota dim = 1 : tensor<12x12xi32>
      %90 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<12x12xi32>
      %91 = stablehlo.add %88, %90 : tensor<12x12xi32>
      %92 = stablehlo.compare EQ, %91, %89, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %93 = stablehlo.convert %92 : (tensor<12x12xi1>) -> tensor<12x12xf32>
      %94 = stablehlo.broadcast_in_dim %93, dims = [1, 2] : (tensor<12x12xf32>) -> tensor<1x12x12xf32>
      %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2] : (tensor<1x12x12xf32>) -> tensor<8x12x12xf32>
      %96 = stablehlo.add %87, %95 : tensor<8x12x12xf32>
      %97 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<12x12xi32>
      %98 = stablehlo.compare LT, %88, %97, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %99 = stablehlo.compare LT, %89, %97, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %100 = stablehlo.and %98, %99 : tensor<12x12xi1>
      %101 = stablehlo.broadcast_in_dim %100, dims = [1, 2] : (tensor<12x12xi1>) -> tensor<8x12x12xi1>
      %102 = stablehlo.broadcast_in_dim %93, dims = [1, 2] : (tensor<12x12xf32>) -> tensor<8x12x12xf32>
      %103 = stablehlo.select %101, %96, %102 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %104 = stablehlo.cholesky %103, lower = true : tensor<8x12x12xf32>
      %105 = stablehlo.compare GE, %91, %89, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %106 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<12x12xf32>
      %107 = stablehlo.broadcast_in_dim %105, dims = [1, 2] : (tensor<12x12xi1>) -> tensor<8x12x12xi1>
      %108 = stablehlo.broadcast_in_dim %106, dims = [1, 2] : (tensor<12x12xf32>) -> tensor<8x12x12xf32>
      %109 = stablehlo.select %107, %104, %108 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %110 = "stablehlo.triangular_solve"(%109, %84) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %111 = "stablehlo.triangular_solve"(%109, %110) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %112 = stablehlo.transpose %111, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %113 = stablehlo.broadcast_in_dim %83, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %114 = stablehlo.multiply %113, %iterArg_25 : tensor<8x12x12xf32>
      %115 = stablehlo.broadcast_in_dim %79, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %116 = stablehlo.multiply %115, %112 : tensor<8x12x12xf32>
      %117 = stablehlo.add %114, %116 : tensor<8x12x12xf32>
      %118 = stablehlo.subtract %117, %iterArg_25 : tensor<8x12x12xf32>
      %119 = stablehlo.multiply %118, %118 : tensor<8x12x12xf32>
      %120 = stablehlo.reduce(%119 init: %cst_6) applies stablehlo.add across dimensions = [1, 2] : (tensor<8x12x12xf32>, tensor<f32>) -> tensor<8xf32>
      %121 = stablehlo.sqrt %120 : tensor<8xf32>
      %122 = stablehlo.convert %iterArg_22 : tensor<f32>
      %123 = stablehlo.broadcast_in_dim %122, dims = [] : (tensor<f32>) -> tensor<8xf32>
      %124 = stablehlo.compare GT, %121, %123, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %125 = stablehlo.add %iterArg_23, %c_1 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_22, %125, %71, %117, %124 : tensor<2x3xf32>, tensor<f32>, tensor<i32>, tensor<i32>, tensor<8x12x12xf32>, tensor<8xi1>
    }
    %22 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %23:4 = stablehlo.while(%iterArg = %18, %iterArg_22 = %22, %iterArg_23 = %21#4, %iterArg_24 = %21#5) : tensor<f32>, tensor<8xi32>, tensor<8x12x12xf32>, tensor<8xi1>
    cond {
      %71 = stablehlo.broadcast_in_dim %c_15, dims = [] : (tensor<i32>) -> tensor<8xi32>
      %72 = stablehlo.compare LT, %iterArg_22, %71, SIGNED : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %73 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<8xi1>
      %74 = stablehlo.compare NE, %72, %73, UNSIGNED : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
      %75 = stablehlo.convert %74 : tensor<8xi1>
      %76 = stablehlo.and %iterArg_24, %75 : tensor<8xi1>
      %77 = stablehlo.reduce(%76 init: %c) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %77 : tensor<i1>
    } do {
      %71 = stablehlo.transpose %iterArg_23, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %72 = stablehlo.dot_general %71, %iterArg_23, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %73 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %74 = stablehlo.multiply %73, %72 : tensor<8x12x12xf32>
      %75 = stablehlo.iota dim = 0 : tensor<12x12xi32>
      %76 = stablehlo.iota dim = 1 : tensor<12x12xi32>
      %77 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<12x12xi32>
      %78 = stablehlo.add %75, %77 : tensor<12x12xi32>
      %79 = stablehlo.compare EQ, %78, %76, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %80 = stablehlo.convert %79 : (tensor<12x12xi1>) -> tensor<12x12xf32>
      %81 = stablehlo.broadcast_in_dim %80, dims = [1, 2] : (tensor<12x12xf32>) -> tensor<1x12x12xf32>
      %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2] : (tensor<1x12x12xf32>) -> tensor<8x12x12xf32>
      %83 = stablehlo.add %74, %82 : tensor<8x12x12xf32>
      %84 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<12x12xi32>
      %85 = stablehlo.compare LT, %75, %84, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %86 = stablehlo.compare LT, %76, %84, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %87 = stablehlo.and %85, %86 : tensor<12x12xi1>
      %88 = stablehlo.broadcast_in_dim %87, dims = [1, 2] : (tensor<12x12xi1>) -> tensor<8x12x12xi1>
      %89 = stablehlo.broadcast_in_dim %80, dims = [1, 2] : (tensor<12x12xf32>) -> tensor<8x12x12xf32>
      %90 = stablehlo.select %88, %83, %89 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %91 = stablehlo.cholesky %90, lower = true : tensor<8x12x12xf32>
      %92 = stablehlo.compare GE, %78, %76, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %93 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<12x12xf32>
      %94 = stablehlo.broadcast_in_dim %92, dims = [1, 2] : (tensor<12x12xi1>) -> tensor<8x12x12xi1>
      %95 = stablehlo.broadcast_in_dim %93, dims = [1, 2] : (tensor<12x12xf32>) -> tensor<8x12x12xf32>
      %96 = stablehlo.select %94, %91, %95 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %97 = "stablehlo.triangular_solve"(%96, %71) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %98 = "stablehlo.triangular_solve"(%96, %97) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %99 = stablehlo.transpose %98, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
      %100 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %101 = stablehlo.multiply %100, %iterArg_23 : tensor<8x12x12xf32>
      %102 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %103 = stablehlo.multiply %102, %99 : tensor<8x12x12xf32>
      %104 = stablehlo.add %101, %103 : tensor<8x12x12xf32>
      %105 = stablehlo.subtract %104, %iterArg_23 : tensor<8x12x12xf32>
      %106 = stablehlo.multiply %105, %105 : tensor<8x12x12xf32>
      %107 = stablehlo.reduce(%106 init: %cst_6) applies stablehlo.add across dimensions = [1, 2] : (tensor<8x12x12xf32>, tensor<f32>) -> tensor<8xf32>
      %108 = stablehlo.sqrt %107 : tensor<8xf32>
      %109 = stablehlo.convert %iterArg : tensor<f32>
      %110 = stablehlo.broadcast_in_dim %109, dims = [] : (tensor<f32>) -> tensor<8xf32>
      %111 = stablehlo.compare GT, %108, %110, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %112 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<8xi32>
      %113 = stablehlo.add %iterArg_22, %112 : tensor<8xi32>
      %114 = stablehlo.broadcast_in_dim %c_15, dims = [] : (tensor<i32>) -> tensor<8xi32>
      %115 = stablehlo.compare LT, %iterArg_22, %114, SIGNED : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %116 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<8xi1>
      %117 = stablehlo.compare NE, %115, %116, UNSIGNED : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
      %118 = stablehlo.convert %117 : tensor<8xi1>
      %119 = stablehlo.and %iterArg_24, %118 : tensor<8xi1>
      %120 = stablehlo.broadcast_in_dim %119, dims = [0] : (tensor<8xi1>) -> tensor<8xi1>
      %121 = stablehlo.select %120, %113, %iterArg_22 : tensor<8xi1>, tensor<8xi32>
      %122 = stablehlo.broadcast_in_dim %119, dims = [0] : (tensor<8xi1>) -> tensor<8x12x12xi1>
      %123 = stablehlo.select %122, %104, %iterArg_23 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %124 = stablehlo.select %120, %111, %iterArg_24 : tensor<8xi1>, tensor<8xi1>
      stablehlo.return %iterArg, %121, %123, %124 : tensor<f32>, tensor<8xi32>, tensor<8x12x12xf32>, tensor<8xi1>
    }
    %24 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
    %25 = stablehlo.multiply %24, %23#2 : tensor<8x12x12xf32>
    %26 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
    %27 = stablehlo.multiply %26, %23#2 : tensor<8x12x12xf32>
    %28 = stablehlo.transpose %23#2, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
    %29 = stablehlo.dot_general %28, %23#2, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
    %30 = stablehlo.dot_general %27, %29, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
    %31 = stablehlo.subtract %25, %30 : tensor<8x12x12xf32>
    %32 = stablehlo.transpose %31, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
    %33 = stablehlo.dot_general %32, %arg0, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
    %34 = stablehlo.transpose %33, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
    %35 = stablehlo.add %33, %34 : tensor<8x12x12xf32>
    %36 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
    %37 = stablehlo.divide %35, %36 : tensor<8x12x12xf32>
    %38 = stablehlo.transpose %37, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
    %39 = stablehlo.add %37, %38 : tensor<8x12x12xf32>
    %40 = stablehlo.divide %39, %36 : tensor<8x12x12xf32>
    %41:2 = stablehlo.custom_call @Eigh(%40) {backend_config = "1,0,100,1e-6"} : (tensor<8x12x12xf32>) -> (tensor<8x12x12xf32>, tensor<8x12xf32>)
    %42 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8x12xf32>
    %43 = stablehlo.maximum %41#1, %42 : tensor<8x12xf32>
    %44 = stablehlo.iota dim = 0 : tensor<12xi32>
    %45 = stablehlo.reverse %43, dims = [1] : tensor<8x12xf32>
    %46 = stablehlo.reverse %44, dims = [0] : tensor<12xi32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [1] : (tensor<12xi32>) -> tensor<8x12xi32>
    %48:2 = "stablehlo.sort"(%45, %47) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %71 = stablehlo.compare EQ, %arg1, %cst_6, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %72 = stablehlo.select %71, %cst_6, %arg1 : tensor<i1>, tensor<f32>
      %73 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %74 = stablehlo.select %73, %cst, %72 : tensor<i1>, tensor<f32>
      %75 = stablehlo.compare EQ, %arg2, %cst_6, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %76 = stablehlo.select %75, %cst_6, %arg2 : tensor<i1>, tensor<f32>
      %77 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %78 = stablehlo.select %77, %cst, %76 : tensor<i1>, tensor<f32>
      %79 = stablehlo.compare LT, %74, %78, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %79 : tensor<i1>
    }) : (tensor<8x12xf32>, tensor<8x12xi32>) -> (tensor<8x12xf32>, tensor<8x12xi32>)
    %49 = stablehlo.reverse %48#1, dims = [1] : tensor<8x12xi32>
    %50 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<8x12xi32>
    %51 = stablehlo.compare LT, %49, %50, SIGNED : (tensor<8x12xi32>, tensor<8x12xi32>) -> tensor<8x12xi1>
    %52 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<8x12xi32>
    %53 = stablehlo.add %49, %52 : tensor<8x12xi32>
    %54 = stablehlo.select %51, %53, %49 : tensor<8x12xi1>, tensor<8x12xi32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1] : (tensor<8x12xi32>) -> tensor<8x12x1xi32>
    %56 = "stablehlo.gather"(%43, %55) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<8x12xf32>, tensor<8x12x1xi32>) -> tensor<8x12xf32>
    %57 = "stablehlo.gather"(%41#0, %55) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 12, 1>}> : (tensor<8x12x12xf32>, tensor<8x12x1xi32>) -> tensor<8x12x12xf32>
    %58 = stablehlo.dot_general %31, %57, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<8x12x12xf32>, tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
    %59 = stablehlo.slice %56 [0:8, 11:12] : (tensor<8x12xf32>) -> tensor<8x1xf32>
    %60 = stablehlo.reshape %59 : (tensor<8x1xf32>) -> tensor<8xf32>
    %61 = stablehlo.slice %56 [0:8, 0:1] : (tensor<8x12xf32>) -> tensor<8x1xf32>
    %62 = stablehlo.reshape %61 : (tensor<8x1xf32>) -> tensor<8xf32>
    %63 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %64 = stablehlo.multiply %63, %62 : tensor<8xf32>
    %65 = stablehlo.compare LE, %60, %64, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %66:2 = stablehlo.while(%iterArg = %58, %iterArg_22 = %65) : tensor<8x12x12xf32>, tensor<8xi1>
    cond {
      %71 = stablehlo.reduce(%iterArg_22 init: %c) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %71 : tensor<i1>
    } do {
      %71:2 = stablehlo.custom_call @Qr(%iterArg) {backend_config = ""} : (tensor<8x12x12xf32>) -> (tensor<8x12x12xf32>, tensor<8x12xf32>)
      %72 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%71#0, %71#1) {backend_config = ""} : (tensor<8x12x12xf32>, tensor<8x12xf32>) -> tensor<8x12x12xf32>
      %73 = stablehlo.iota dim = 0 : tensor<12x12xi32>
      %74 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<12x12xi32>
      %75 = stablehlo.add %73, %74 : tensor<12x12xi32>
      %76 = stablehlo.iota dim = 1 : tensor<12x12xi32>
      %77 = stablehlo.compare GE, %75, %76, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %78 = stablehlo.broadcast_in_dim %77, dims = [1, 2] : (tensor<12x12xi1>) -> tensor<8x12x12xi1>
      %79 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8x12x12xf32>
      %80 = stablehlo.select %78, %79, %71#0 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %81 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<12xi32>
      %82 = stablehlo.compare LT, %44, %81, SIGNED : (tensor<12xi32>, tensor<12xi32>) -> tensor<12xi1>
      %83 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<12xi32>
      %84 = stablehlo.add %44, %83 : tensor<12xi32>
      %85 = stablehlo.select %82, %84, %44 : tensor<12xi1>, tensor<12xi32>
      %86 = stablehlo.broadcast_in_dim %85, dims = [0] : (tensor<12xi32>) -> tensor<12x1xi32>
      %87 = stablehlo.concatenate %86, %86, dim = 1 : (tensor<12x1xi32>, tensor<12x1xi32>) -> tensor<12x2xi32>
      %88 = "stablehlo.gather"(%80, %87) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1, 2], start_index_map = [1, 2], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 8, 1, 1>}> : (tensor<8x12x12xf32>, tensor<12x2xi32>) -> tensor<8x12xf32>
      %89 = stablehlo.compare GE, %88, %42, FLOAT : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xi1>
      %90 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<12xi32>
      %91 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<12xi32>
      %92 = stablehlo.broadcast_in_dim %91, dims = [1] : (tensor<12xi32>) -> tensor<8x12xi32>
      %93 = stablehlo.broadcast_in_dim %90, dims = [1] : (tensor<12xi32>) -> tensor<8x12xi32>
      %94 = stablehlo.select %89, %93, %92 : tensor<8x12xi1>, tensor<8x12xi32>
      %95 = stablehlo.pad %94, %c_5, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<8x12xi32>, tensor<i32>) -> tensor<8x12xi32>
      %96 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<12x12xi32>
      %97 = stablehlo.add %73, %96 : tensor<12x12xi32>
      %98 = stablehlo.compare EQ, %97, %76, SIGNED : (tensor<12x12xi32>, tensor<12x12xi32>) -> tensor<12x12xi1>
      %99 = stablehlo.broadcast_in_dim %95, dims = [0, 1] : (tensor<8x12xi32>) -> tensor<8x12x1xi32>
      %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2] : (tensor<8x12x1xi32>) -> tensor<8x12x12xi32>
      %101 = stablehlo.broadcast_in_dim %98, dims = [1, 2] : (tensor<12x12xi1>) -> tensor<8x12x12xi1>
      %102 = stablehlo.broadcast_in_dim %96, dims = [1, 2] : (tensor<12x12xi32>) -> tensor<8x12x12xi32>
      %103 = stablehlo.select %101, %100, %102 : tensor<8x12x12xi1>, tensor<8x12x12xi32>
      %104 = stablehlo.dot_general %72, %103, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<8x12x12xf32>, tensor<8x12x12xi32>) -> tensor<8x12x12xf32>
      %105 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<8xi1>
      %106 = stablehlo.broadcast_in_dim %iterArg_22, dims = [0] : (tensor<8xi1>) -> tensor<8x12x12xi1>
      %107 = stablehlo.select %106, %104, %iterArg : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %108 = stablehlo.broadcast_in_dim %iterArg_22, dims = [0] : (tensor<8xi1>) -> tensor<8xi1>
      %109 = stablehlo.select %108, %105, %iterArg_22 : tensor<8xi1>, tensor<8xi1>
      stablehlo.return %107, %109 : tensor<8x12x12xf32>, tensor<8xi1>
    }
    %67 = stablehlo.is_finite %arg0 : (tensor<8x12x12xf32>) -> tensor<8x12x12xi1>
    %68 = stablehlo.reduce(%67 init: %c_0) applies stablehlo.and across dimensions = [1, 2] : (tensor<8x12x12xi1>, tensor<i1>) -> tensor<8xi1>
    %69:4 = stablehlo.while(%iterArg = %68, %iterArg_22 = %66#0, %iterArg_23 = %56, %iterArg_24 = %57) : tensor<8xi1>, tensor<8x12x12xf32>, tensor<8x12xf32>, tensor<8x12x12xf32>
    cond {
      %71 = stablehlo.not %iterArg : tensor<8xi1>
      %72 = stablehlo.reduce(%71 init: %c) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %72 : tensor<i1>
    } do {
      %71 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<12x12xf32>
      %72 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<12xf32>
      %73 = stablehlo.broadcast_in_dim %71, dims = [1, 2] : (tensor<12x12xf32>) -> tensor<8x12x12xf32>
      %74 = stablehlo.broadcast_in_dim %72, dims = [1] : (tensor<12xf32>) -> tensor<8x12xf32>
      %75 = stablehlo.not %iterArg : tensor<8xi1>
      %76 = stablehlo.broadcast_in_dim %75, dims = [0] : (tensor<8xi1>) -> tensor<8xi1>
      %77 = stablehlo.select %76, %20, %iterArg : tensor<8xi1>, tensor<8xi1>
      %78 = stablehlo.broadcast_in_dim %75, dims = [0] : (tensor<8xi1>) -> tensor<8x12x12xi1>
      %79 = stablehlo.select %78, %73, %iterArg_22 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      %80 = stablehlo.broadcast_in_dim %75, dims = [0] : (tensor<8xi1>) -> tensor<8x12xi1>
      %81 = stablehlo.select %80, %74, %iterArg_23 : tensor<8x12xi1>, tensor<8x12xf32>
      %82 = stablehlo.select %78, %73, %iterArg_24 : tensor<8x12x12xi1>, tensor<8x12x12xf32>
      stablehlo.return %77, %79, %81, %82 : tensor<8xi1>, tensor<8x12x12xf32>, tensor<8x12xf32>, tensor<8x12x12xf32>
    }
    %70 = stablehlo.transpose %69#3, dims = [0, 2, 1] : (tensor<8x12x12xf32>) -> tensor<8x12x12xf32>
    return %69#1, %69#2, %70 : tensor<8x12x12xf32>, tensor<8x12xf32>, tensor<8x12x12xf32>
  }
}
