"""TPUs: `dtensor.tpu.initialize_tpu_system()`, their topology, and meshes in ring order."""

from dtensor.runtime.tpu.mesh import create_tpu_mesh
from dtensor.runtime.tpu.system import initialize_tpu_system
from dtensor.runtime.tpu.topology import Topology, topology_of

__all__ = ["Topology", "create_tpu_mesh", "initialize_tpu_system", "topology_of"]
