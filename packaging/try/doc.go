// Package try uses what `make release` has made as its users do: it unpacks the archive and
// the deb, installs the npm packages from a registry of its own, starts servers by a
// client's file in a clean environment, and reads the container image with a library that
// has not written it.
//
// Its tests need the folder with the results in DRAGOMAN_TRY, and do nothing without it; see
// `make release-try`. A check whose tool this machine lacks prints that and passes.
package try
