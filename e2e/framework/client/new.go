package client

import "reflect"

// newOf is a new object of a pointer type, for the reflector to know what it decodes.
func newOf[T Object]() T {
	var none T
	made, ok := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
	if !ok {
		return none
	}
	return made
}
