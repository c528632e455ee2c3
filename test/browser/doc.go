// Package browser tests the console in a real browser. Its tests start `dragoman serve`, open the
// one-time link in Chromium, and use the pages as a person does: with the mouse, with the keyboard
// only, at the width of a phone, and in both themes. axe-core examines every page.
//
// The tests control Chromium through the pipe of the Chrome DevTools Protocol. They find
// Chromium on the PATH or in DRAGOMAN_CHROMIUM. axe-core, and the client and the server of the
// end-to-end test, come from npm at fixed versions and are kept below .cache.
//
// Nothing runs unless DRAGOMAN_BROWSER is set:
//
//	make browser
//	.ci/postgres make browser
//	make screenshots
//
// `make screenshots` writes docs/pictures/console. No test compares pixels.
package browser
