// Command pictures draws the pictures of the documentation from real runs of Dragoman.
//
// Each scene starts the program on a terminal of a fixed size, reads its output, and draws the
// screen as SVG, once for light pages and once for dark ones. The picture of the matrix is drawn
// from the tables in docs/compatibility.md. With -check the program does not write files. It
// compares the texts of the pictures with the texts of new runs, and ignores differences in numbers.
//
// The scenes use only the program itself, its demo servers and its fakes, so they need no
// network.
package main
