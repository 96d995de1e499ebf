! Calls each routine that every BLAS has as Fortran does, and prints for each its name and all elements of its result, for comparison
! with a run over another BLAS.
program every_routine
  implicit none
  integer, parameter :: m = 37, n = 29, k = 41, ld = 48
  integer, parameter :: single = kind(0e0), double = kind(0d0)
  real(single) :: sa(ld, ld), sb(ld, ld), sc(ld, ld)
  real(double) :: da(ld, ld), db(ld, ld), dc(ld, ld)
  complex(single) :: ca(ld, ld), cb(ld, ld), cc(ld, ld)
  complex(double) :: za(ld, ld), zb(ld, ld), zc(ld, ld)
  integer :: calls = 0
  integer(8) :: state = 12345
  external :: sgemm, ssymm, ssyrk, ssyr2k, strmm, strsm
  external :: dgemm, dsymm, dsyrk, dsyr2k, dtrmm, dtrsm
  external :: cgemm, csymm, csyrk, csyr2k, ctrmm, ctrsm, chemm, cherk, cher2k
  external :: zgemm, zsymm, zsyrk, zsyr2k, ztrmm, ztrsm, zhemm, zherk, zher2k

  call fill_s
  call sgemm('N', 't', m, n, k, 0.75_single, sa, ld, sb, ld, 0.5_single, sc, ld)
  call print_s('sgemm', sc)
  call fill_s
  call ssymm('R', 'u', m, n, 0.75_single, sa, ld, sb, ld, 0.5_single, sc, ld)
  call print_s('ssymm', sc)
  call fill_s
  call ssyrk('L', 'T', n, k, 0.75_single, sa, ld, 0.5_single, sc, ld)
  call print_s('ssyrk', sc)
  call fill_s
  call ssyr2k('Upper', 'No', n, k, 0.75_single, sa, ld, sb, ld, 0.5_single, sc, ld)
  call print_s('ssyr2k', sc)
  call fill_s
  call strmm('L', 'L', 't', 'N', m, n, 0.75_single, sa, ld, sb, ld)
  call print_s('strmm', sb)
  call fill_s
  call strsm('Right', 'Upper', 'N', 'Unit', m, n, 0.75_single, sa, ld, sb, ld)
  call print_s('strsm', sb)
  call fill_d
  call dgemm('N', 't', m, n, k, 0.75_double, da, ld, db, ld, 0.5_double, dc, ld)
  call print_d('dgemm', dc)
  call fill_d
  call dsymm('R', 'u', m, n, 0.75_double, da, ld, db, ld, 0.5_double, dc, ld)
  call print_d('dsymm', dc)
  call fill_d
  call dsyrk('L', 'T', n, k, 0.75_double, da, ld, 0.5_double, dc, ld)
  call print_d('dsyrk', dc)
  call fill_d
  call dsyr2k('Upper', 'No', n, k, 0.75_double, da, ld, db, ld, 0.5_double, dc, ld)
  call print_d('dsyr2k', dc)
  call fill_d
  call dtrmm('L', 'L', 't', 'N', m, n, 0.75_double, da, ld, db, ld)
  call print_d('dtrmm', db)
  call fill_d
  call dtrsm('Right', 'Upper', 'N', 'Unit', m, n, 0.75_double, da, ld, db, ld)
  call print_d('dtrsm', db)
  call fill_c
  call cgemm('N', 't', m, n, k, (0.75_single, -0.5_single), ca, ld, cb, ld, (0.5_single, 0.25_single), cc, ld)
  call print_c('cgemm', cc)
  call fill_c
  call csymm('R', 'u', m, n, (0.75_single, -0.5_single), ca, ld, cb, ld, (0.5_single, 0.25_single), cc, ld)
  call print_c('csymm', cc)
  call fill_c
  call csyrk('L', 'T', n, k, (0.75_single, -0.5_single), ca, ld, (0.5_single, 0.25_single), cc, ld)
  call print_c('csyrk', cc)
  call fill_c
  call csyr2k('Upper', 'No', n, k, (0.75_single, -0.5_single), ca, ld, cb, ld, (0.5_single, 0.25_single), &
    cc, ld)
  call print_c('csyr2k', cc)
  call fill_c
  call ctrmm('L', 'L', 'c', 'N', m, n, (0.75_single, -0.5_single), ca, ld, cb, ld)
  call print_c('ctrmm', cb)
  call fill_c
  call ctrsm('Right', 'Upper', 'N', 'Unit', m, n, (0.75_single, -0.5_single), ca, ld, cb, ld)
  call print_c('ctrsm', cb)
  call fill_c
  call chemm('L', 'L', m, n, (0.75_single, -0.5_single), ca, ld, cb, ld, (0.5_single, 0.25_single), cc, ld)
  call print_c('chemm', cc)
  call fill_c
  call cherk('U', 'C', n, k, 0.75_single, ca, ld, 0.5_single, cc, ld)
  call print_c('cherk', cc)
  call fill_c
  call cher2k('L', 'N', n, k, (0.75_single, -0.5_single), ca, ld, cb, ld, 0.5_single, cc, ld)
  call print_c('cher2k', cc)
  call fill_z
  call zgemm('N', 't', m, n, k, (0.75_double, -0.5_double), za, ld, zb, ld, (0.5_double, 0.25_double), zc, ld)
  call print_z('zgemm', zc)
  call fill_z
  call zsymm('R', 'u', m, n, (0.75_double, -0.5_double), za, ld, zb, ld, (0.5_double, 0.25_double), zc, ld)
  call print_z('zsymm', zc)
  call fill_z
  call zsyrk('L', 'T', n, k, (0.75_double, -0.5_double), za, ld, (0.5_double, 0.25_double), zc, ld)
  call print_z('zsyrk', zc)
  call fill_z
  call zsyr2k('Upper', 'No', n, k, (0.75_double, -0.5_double), za, ld, zb, ld, (0.5_double, 0.25_double), &
    zc, ld)
  call print_z('zsyr2k', zc)
  call fill_z
  call ztrmm('L', 'L', 'c', 'N', m, n, (0.75_double, -0.5_double), za, ld, zb, ld)
  call print_z('ztrmm', zb)
  call fill_z
  call ztrsm('Right', 'Upper', 'N', 'Unit', m, n, (0.75_double, -0.5_double), za, ld, zb, ld)
  call print_z('ztrsm', zb)
  call fill_z
  call zhemm('L', 'L', m, n, (0.75_double, -0.5_double), za, ld, zb, ld, (0.5_double, 0.25_double), zc, ld)
  call print_z('zhemm', zc)
  call fill_z
  call zherk('U', 'C', n, k, 0.75_double, za, ld, 0.5_double, zc, ld)
  call print_z('zherk', zc)
  call fill_z
  call zher2k('L', 'N', n, k, (0.75_double, -0.5_double), za, ld, zb, ld, 0.5_double, zc, ld)
  call print_z('zher2k', zc)
  print '(A, I0)', 'calls ', calls

contains

  ! The same numbers whatever the compiler.
  double precision function next_value()
    state = mod(state * 16807_8, 2147483647_8)
    next_value = dble(state) / 2147483647d0 - 0.5d0
  end function next_value

  ! Random, the diagonal about 3, so that solving with either triangle is harmless.
  subroutine fill_s
    integer :: i, j
    do j = 1, ld
      do i = 1, ld
        sa(i, j) = real(next_value() / 4, single)
        sb(i, j) = real(next_value() / 4, single)
        sc(i, j) = real(next_value() / 4, single)
      end do
      sa(j, j) = sa(j, j) + 3
    end do
  end subroutine fill_s

  subroutine print_s(name, matrix)
    character(*), intent(in) :: name
    real(single), intent(in) :: matrix(ld, ld)
    print '(A, *(1X, G0.9))', name, matrix
    calls = calls + 1
  end subroutine print_s

  ! Random, the diagonal about 3, so that solving with either triangle is harmless.
  subroutine fill_d
    integer :: i, j
    do j = 1, ld
      do i = 1, ld
        da(i, j) = real(next_value() / 4, double)
        db(i, j) = real(next_value() / 4, double)
        dc(i, j) = real(next_value() / 4, double)
      end do
      da(j, j) = da(j, j) + 3
    end do
  end subroutine fill_d

  subroutine print_d(name, matrix)
    character(*), intent(in) :: name
    real(double), intent(in) :: matrix(ld, ld)
    print '(A, *(1X, G0.9))', name, matrix
    calls = calls + 1
  end subroutine print_d

  ! Random, the diagonal about 3, so that solving with either triangle is harmless.
  subroutine fill_c
    integer :: i, j
    do j = 1, ld
      do i = 1, ld
        ca(i, j) = cmplx(next_value() / 4, next_value() / 4, single)
        cb(i, j) = cmplx(next_value() / 4, next_value() / 4, single)
        cc(i, j) = cmplx(next_value() / 4, next_value() / 4, single)
      end do
      ca(j, j) = ca(j, j) + 3
    end do
  end subroutine fill_c

  subroutine print_c(name, matrix)
    character(*), intent(in) :: name
    complex(single), intent(in) :: matrix(ld, ld)
    print '(A, *(1X, G0.9))', name, matrix
    calls = calls + 1
  end subroutine print_c

  ! Random, the diagonal about 3, so that solving with either triangle is harmless.
  subroutine fill_z
    integer :: i, j
    do j = 1, ld
      do i = 1, ld
        za(i, j) = cmplx(next_value() / 4, next_value() / 4, double)
        zb(i, j) = cmplx(next_value() / 4, next_value() / 4, double)
        zc(i, j) = cmplx(next_value() / 4, next_value() / 4, double)
      end do
      za(j, j) = za(j, j) + 3
    end do
  end subroutine fill_z

  subroutine print_z(name, matrix)
    character(*), intent(in) :: name
    complex(double), intent(in) :: matrix(ld, ld)
    print '(A, *(1X, G0.9))', name, matrix
    calls = calls + 1
  end subroutine print_z

end program every_routine
