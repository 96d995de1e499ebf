! A Fortran program that calls DGEMM and ZGEMM as Fortran does, and compares with MATMUL.
program fortran_product
  implicit none
  integer, parameter :: m = 61, n = 47, k = 53
  double precision :: a(m, k), b(n, k), c(m + 2, n), expected(m, n)
  complex(kind(0d0)) :: za(k, m), zb(k, n), zc(m, n), zexpected(m, n)
  double precision :: parts(2, k, m), more(2, k, n)
  external :: dgemm, zgemm

  call random_number(a)
  call random_number(b)
  call random_number(c)
  expected = 2d0 * matmul(a, transpose(b)) - c(1:m, :)
  call dgemm('N', 't', m, n, k, 2d0, a, m, b, n, -1d0, c, m + 2)
  if (maxval(abs(c(1:m, :) - expected)) > 1d-12) stop 1

  call random_number(parts)
  call random_number(more)
  za = cmplx(parts(1, :, :), parts(2, :, :), kind(0d0))
  zb = cmplx(more(1, :, :), more(2, :, :), kind(0d0))
  zc = (7d0, 7d0)
  zexpected = (0d0, 1d0) * matmul(conjg(transpose(za)), zb)
  call zgemm('Conjugate', 'No', m, n, k, (0d0, 1d0), za, k, zb, k, (0d0, 0d0), zc, m)
  if (maxval(abs(zc - zexpected)) > 1d-12) stop 2
  print '(A)', 'calls 2'
end program fortran_product
