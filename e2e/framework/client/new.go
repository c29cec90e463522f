package client

import "reflect"

// newOf returns a new object of a pointer type. It tells the reflector which type to decode.
func newOf[T Object]() T {
	var none T
	made, ok := reflect.New(reflect.TypeOf(none).Elem()).Interface().(T)
	if !ok {
		return none
	}
	return made
}
