#!/bin/sh
# Stands in for a training program: the same wiring, ports, signals, exit codes and checkpoint files, and no TensorFlow.
#
#   task.sh --job_name=worker --task_index=0 --ps_hosts=… --worker_hosts=… [--train_steps=20] [--step_seconds=0.1]
#           [--fail_at=STEP] [--hold_at=STEP] [--save_every=5]
#
# A ps listens until it is stopped. A worker waits for every ps, listens, and prints its steps; worker 0 saves. At the step
# of hold_at it waits for a file `go` in its checkpoint directory.
job_name=worker task_index=0 ps_hosts='' worker_hosts='' train_steps=20 step_seconds=0.1 fail_at=-1 hold_at=-1 save_every=5
for argument; do
    case $argument in
    --*=*) name=${argument%%=*} && export "${name#--}=${argument#*=}" ;;
    esac
done
directory=${TFPROV_CHECKPOINT_DIR:-/checkpoints}
step=0

save() {
    [ "$task_index" = 0 ] && [ "$job_name" = worker ] && [ -d "$directory" ] || return 0
    prefix=$directory/model.ckpt-$step
    for part in data-00000-of-00001 index; do # a checkpoint that TensorFlow can read, where it was delivered with this
        cp "$(dirname "$0")/weights.$part" "$directory/new" 2>/dev/null || echo "$part of step $step" >"$directory/new"
        mv "$directory/new" "$prefix.$part" # whole or not there, as with TensorFlow
    done
    printf 'model_checkpoint_path: "%s"\nall_model_checkpoint_paths: "%s"\n' "$prefix" "$prefix" >"$directory/new"
    mv "$directory/new" "$directory/checkpoint"
    echo "meta" >"$directory/new"
    mv "$directory/new" "$prefix.meta"
    rm -f "$directory/model.ckpt-$((step - 5 * save_every))."* # the newest five, as TensorFlow keeps them
    echo "saved $prefix"
}

leave() {
    save
    echo "$job_name/$task_index ended by SIGTERM"
    [ -z "$listener" ] || kill "$listener"
    exit 143
}

address() { # of this task: the hosts of its job, by index
    [ "$job_name" = ps ] && hosts=$ps_hosts || hosts=$worker_hosts
    echo "$hosts" | cut -d, -f$((task_index + 1))
}

wait_for_ps() {
    for address in $(echo "$ps_hosts" | tr , ' '); do
        until nc -w 1 "${address%:*}" "${address##*:}" </dev/null >/dev/null 2>&1; do
            echo "waiting for $address"
            sleep 0.2
        done
    done
}

listener=
trap leave TERM INT
[ "$job_name" = ps ] || wait_for_ps
if [ -n "$(address)" ]; then
    nc -ll -p "$(address | sed 's/.*://')" -e /bin/cat &
    listener=$!
fi
echo "up: $job_name/$task_index"
[ "$job_name" != ps ] || while :; do sleep 3600 & wait $!; done
save
while [ "$step" -lt "$train_steps" ]; do
    sleep "$step_seconds" & wait $!
    step=$((step + 1))
    echo "step $step"
    [ "$step" != "$fail_at" ] || { echo "failing at step $step" >&2; kill "$listener"; exit 7; }
    [ "$step" != "$hold_at" ] || until [ -e "$directory/go" ]; do sleep 0.1 & wait $!; done
    [ $((step % save_every)) != 0 ] || save
done
save
echo "done: step=$step"
[ -z "$listener" ] || kill "$listener"
