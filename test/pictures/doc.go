// Command pictures makes the pictures of the documentation from real runs of Dragoman.
//
// Each scene starts the program on a terminal of a fixed size, reads what it prints, and
// draws the screen as SVG, once for light pages and once for dark ones. The matrix is drawn
// from `dragoman matrix --json`. With -check nothing is written: the texts of the pictures
// are compared with those of new runs, and numbers may differ.
//
// The scenes use only the program itself, its demo servers and its fakes, so they need no
// network.
package main
