# task: mul; expect: runtime_error
def mul(input, other):
    raise ValueError(b'\xff\xfe\x00'.decode('latin1')+chr(0xd800))
