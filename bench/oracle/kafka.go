package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/headrace/headrace/bench/drive"
	"github.com/headrace/headrace/bench/oracle/batch"
)

// kafka is the process that answers cases with Kafka Streams.
type kafka struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startKafka(java *drive.Java) (*kafka, error) {
	k := &kafka{cmd: java.Command(512, "headrace.oracle.Oracle")}
	k.cmd.Stderr = os.Stderr
	var err error
	if k.in, err = k.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	k.out = bufio.NewReaderSize(out, 1<<20)
	if err := k.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Java: %w", err)
	}
	return k, nil
}

// ask sends a case. Its answer comes behind those of the cases before it.
func (k *kafka) ask(c *batch.Case) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = k.in.Write(append(line, '\n'))
	return err
}

func (k *kafka) answer() (batch.Answer, error) {
	line, err := k.out.ReadBytes('\n')
	if err != nil {
		return batch.Answer{}, fmt.Errorf("the Java peer has ended: %w", err)
	}
	var a struct {
		batch.Answer
		Error string
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return batch.Answer{}, fmt.Errorf("the Java peer says %.200q: %w", line, err)
	}
	if a.Error != "" {
		return batch.Answer{}, errors.New("the Java peer: " + a.Error)
	}
	return a.Answer, nil
}

// close ends the process, which ends with its input.
func (k *kafka) close() error {
	return errors.Join(k.in.Close(), k.cmd.Wait())
}
