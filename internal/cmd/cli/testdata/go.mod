// The names of some recorded files are not valid in a module, so this folder is none of the project's.
module testdata

go 1.26
