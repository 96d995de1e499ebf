# Matrix products in Julia on its own BLAS, then on Tessera, and their differences.
#   TESSERA_VERBOSE=1 julia examples/julia/products.jl /prefix/lib/libtessera_blas64.so
using LinearAlgebra

library = ARGS[1]
n = 2000
matrices = [(rand(T, n, n), rand(T, n, n)) for T in (Float32, Float64, ComplexF32, ComplexF64)]
before = [A * B for (A, B) in matrices]
BLAS.lbt_forward(library)
println(BLAS.get_config())
after = [A * B for (A, B) in matrices]
for ((A, B), C, D) in zip(matrices, before, after)
    # Either product may be off by rounding: of about sqrt(n) units in each element.
    distance = norm(C - D) / (eps(real(eltype(A))) * norm(A) * norm(B))
    println(eltype(A), ": the products differ by ", distance, " units of rounding")
    @assert distance < sqrt(n)
end
