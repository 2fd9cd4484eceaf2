//go:build kafka && !linux

package devkafka_test

const endsWithParent = false
