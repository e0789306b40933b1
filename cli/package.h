/* package.h - where the Python package is when the installation is not where it was built for (a
 * wheel's, a copied tree). */
#ifndef CLI_PACKAGE_H
#define CLI_PACKAGE_H

/* "PREFIX/lib/cellspan/python" for a kernel that is PREFIX/bin/cellspan-kernel; NULL where the
 * package is in its place or nowhere. The caller's (free()). CELLSPAN_PYTHONPATH is to name it for
 * the kernel's workers. */
char *package_moved(const char *kernel);

#endif
