// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

func.func @no_windows(%a: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @below {{'dtensor.ends' stands on 'stablehlo.abs'; only these have windows: stablehlo.convolution, stablehlo.reduce_window}}
  %0 = stablehlo.abs %a {dtensor.ends = ["wrap"]} : tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @one_for_each_window(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x6x5xf32> {
  // expected-error @below {{'dtensor.ends' is ["wrap", "wrap"]; give a string for each of 1 windows}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["wrap", "wrap"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x6x5xf32>
  return %0 : tensor<3x6x5xf32>
}

// -----

func.func @mode(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x6x5xf32> {
  // expected-error @below {{'dtensor.ends' has "mirror"; it knows wrap, reflect, symmetric, edge, or nothing}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["mirror"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x6x5xf32>
  return %0 : tensor<3x6x5xf32>
}

// -----

func.func @more_than_there_is(%a: tensor<3x6x4xf32>, %k: tensor<7x4x5xf32>) -> tensor<3x6x5xf32> {
  // expected-error @below {{dimension 1 of 6 elements is padded by 6 and 0; 'reflect' gives between 0 and 5}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[6, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["reflect"]} : (tensor<3x6x4xf32>, tensor<7x4x5xf32>) -> tensor<3x6x5xf32>
  return %0 : tensor<3x6x5xf32>
}

// -----

func.func @less_than_nothing(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x4x5xf32> {
  // expected-error @below {{dimension 1 of 6 elements is padded by 1 and -1; 'edge' gives between 0 and any number}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, -1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["edge"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
  return %0 : tensor<3x4x5xf32>
}

// -----

func.func @gaps(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x12x5xf32> {
  // expected-error @below {{dimension 1 has gaps between its elements; only 'wrap' pads such a one}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 2]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["edge"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x12x5xf32>
  return %0 : tensor<3x12x5xf32>
}

// -----

func.func @end(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x6x5xf32> {
  // expected-error @below {{7 of 6 elements of dimension 1; name some of them}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["wrap of 7 for 6"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x6x5xf32>
  return %0 : tensor<3x6x5xf32>
}

// -----

func.func @no_results_of_windows(%a: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @below {{'dtensor.folds' stands on 'stablehlo.abs'; only these have windows: stablehlo.convolution, stablehlo.reduce_window}}
  %0 = stablehlo.abs %a {dtensor.folds = ["wrap by 1 and 1"]} : tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @folds_text(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x6x5xf32> {
  // expected-error @below {{'dtensor.folds' has "wrap"; it knows "wrap by 1 and 2" and the like, or nothing}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.folds = ["wrap"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x6x5xf32>
  return %0 : tensor<3x6x5xf32>
}

// -----

func.func @folds_and_strides(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x3x5xf32> {
  // expected-error @below {{'dtensor.folds' of dimension 1 needs windows at each place, and zeros for padding}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.folds = ["edge by 1 and 1"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x3x5xf32>
  return %0 : tensor<3x3x5xf32>
}

// -----

func.func @folds_and_ends(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x6x5xf32> {
  // expected-error @below {{'dtensor.folds' of dimension 1 needs windows at each place, and zeros for padding}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["wrap"], dtensor.folds = ["wrap by 1 and 1"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x6x5xf32>
  return %0 : tensor<3x6x5xf32>
}

// -----

func.func @more_than_results(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x6x5xf32> {
  // expected-error @below {{dimension 1 of 6 results gets 6 and 1; 'reflect' takes up to 5}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.folds = ["reflect by 6 and 1"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x6x5xf32>
  return %0 : tensor<3x6x5xf32>
}

// -----

func.func @end_of_results(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x6x5xf32> {
  // expected-error @below {{7 of 6 results along dimension 1; name some of them}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.folds = ["reflect by 1 and 1 of 7"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x6x5xf32>
  return %0 : tensor<3x6x5xf32>
}

// -----

func.func @end_of_windows(%a: tensor<3x6x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<3x6x5xf32> {
  // expected-error @below {{7 of 6 windows of dimension 1; name some of them}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["wrap of 5 for 7"]} : (tensor<3x6x4xf32>, tensor<3x4x5xf32>) -> tensor<3x6x5xf32>
  return %0 : tensor<3x6x5xf32>
}
