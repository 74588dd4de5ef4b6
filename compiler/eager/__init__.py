"""Operations on DTensors one by one; importing this lets DTensors run them."""

from dtensor.compiler.eager import array_api, creation, indexing, numpy_protocol, operators
from dtensor.runtime.eager import install

install(
    unary=operators.unary,
    binary=operators.binary,
    divmod=operators.divided,
    method=operators.method,
    get=indexing.get,
    update=indexing.update,
    to_device=creation.to_device,
    namespace=array_api.array_namespace,
    numpy_ufunc=numpy_protocol.numpy_ufunc,
    numpy_function=numpy_protocol.numpy_function,
)
