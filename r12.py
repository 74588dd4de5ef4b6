from h import *
import h, g9
exec(open("/work/scratch/windows30/r11.py").read().split("x = np.arange")[0].split("import h; h.VARY=0")[1])
src = open("/work/scratch/windows30/r11.py").read(); i = src.index("from dtensor.passes.forms.trips"); exec(src[i:src.index("h.VARY=0", i)])
COUNT[0] = 658
t, f, args, mesh, specs, *_ = g9.gen(1918)
print(jax.make_jaxpr(f)(*args))
oj = jit
def jit(f, **k):
    print(k.get("out_layouts")); return oj(f, **k)
h.jit = jit
check(t, f, args, mesh, specs)
