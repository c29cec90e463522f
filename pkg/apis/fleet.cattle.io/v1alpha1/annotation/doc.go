// Package annotation has the names of the annotations that only this project writes. Rancher Fleet does not know them, and
// leaves them as they are. The names that both have in common are in v1alpha1.
package annotation
